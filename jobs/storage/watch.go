package storage

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// WatchLasts is how long a run stays watched after a call of Watch. A new call may do nothing
	// while half of this time is left.
	WatchLasts = 15 * time.Second
	// MaxWatchedOutput is how many bytes of the output of a running run are stored: the last ones.
	MaxWatchedOutput = 16 << 10
)

// Output is the output of a running run so far.
type Output struct {
	Token jobs.Token
	Text  string // valid UTF-8 without NUL, at most MaxWatchedOutput
}

// Watching stores the output of running runs while their pages are open. The output of other runs
// is stored only at their end.
type Watching interface {
	// Watch marks a running run as watched for WatchLasts. Its replica learns of it through
	// ControlState.
	Watch(ctx context.Context, run uuid.UUID) error
	// SaveOutput replaces the output of runs. It leaves out runs whose claims are gone or are being
	// deleted.
	SaveOutput(ctx context.Context, outputs []Output) error
}
