package storage

import "context"

// Topic is a part of the store's data that open pages show.
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

// Topics returns all topics.
func Topics() []Topic {
	return []Topic{TopicRuns, TopicLocks, TopicJobs, TopicReplicas, TopicAudit, TopicWebhooks}
}

// Marks holds a mark for each topic. All replicas read the same marks.
type Marks map[Topic]string

// Marked returns marks.
type Marked interface {
	// Marks returns a mark for each topic. Replicas with open pages call it once a second, so it
	// must cost little. It may miss these changes:
	//
	//   - a run whose state stays the same, for example with a new blocker
	//   - some changes of waiting runs, if more than 10,000 runs wait
	//   - some changes of deliveries, if more than 1,000 are open
	Marks(ctx context.Context) (Marks, error)
}
