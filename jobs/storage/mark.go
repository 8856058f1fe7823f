package storage

import "context"

// Topic is a part of the store's data whose changes a client can watch.
type Topic string

// The topics.
const (
	TopicRuns     Topic = "runs"
	TopicLocks    Topic = "locks" // grants and waiters
	TopicJobs     Topic = "jobs"  // active definitions and pauses
	TopicReplicas Topic = "replicas"
	TopicAudit    Topic = "audit"
	TopicWebhooks Topic = "webhooks" // deliveries
)

// Topics lists all topics.
func Topics() []Topic {
	return []Topic{TopicRuns, TopicLocks, TopicJobs, TopicReplicas, TopicAudit, TopicWebhooks}
}

// Marks holds a mark per topic. The mark of a topic changes when its data change. Marks have no
// other meaning, and every replica reads the same ones.
type Marks map[Topic]string

// Marked is a store that returns marks.
type Marked interface {
	// Marks returns a mark for each topic. Each replica with an open page calls it once a second,
	// so it must cost little, even with a long history. It may miss a change of a run whose state
	// stays the same, such as a new blocker. It may also miss changes among more than 10,000
	// waiting runs or more than 1,000 open deliveries.
	Marks(ctx context.Context) (Marks, error)
}
