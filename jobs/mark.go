package jobs

import "context"

// Topic is a part of what the store knows, of which somebody who watches is
// told that it has changed.
type Topic string

// The topics.
const (
	TopicRuns     Topic = "runs"
	TopicLocks    Topic = "locks" // what is held, and who waits for it
	TopicJobs     Topic = "jobs"  // which definitions are active, and what is paused
	TopicReplicas Topic = "replicas"
	TopicAudit    Topic = "audit"
	TopicWebhooks Topic = "webhooks" // what is to be delivered, and what could not be
)

// Topics lists all topics.
func Topics() []Topic {
	return []Topic{TopicRuns, TopicLocks, TopicJobs, TopicReplicas, TopicAudit, TopicWebhooks}
}

// Marks say where each topic stands: of one that has changed there is another
// mark than before. They mean nothing else, and are the same by every replica's
// question.
type Marks map[Topic]string

// Marked says where topics stand.
type Marked interface {
	// Marks returns a mark of each topic. Each replica that is watched asks once
	// a second: it takes the store little, however long the history. A change
	// that leaves a run where it stands, such as another thing that it waits for,
	// may not be seen; neither may what goes on in a crowd: of more than 10,000
	// that wait, or more than 1,000 deliveries that are open.
	Marks(ctx context.Context) (Marks, error)
}
