package storage

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	// WatchLasts is how long a run stays watched after a client has looked at it.
	WatchLasts = 15 * time.Second
	// MaxWatchedOutput is how many bytes of the output of a running run are stored: the last ones.
	MaxWatchedOutput = 16 << 10
)

// Output is the output of a running run so far.
type Output struct {
	Token jobs.Token
	Text  string // valid UTF-8 without NUL, at most MaxWatchedOutput
}

// Watching shows the output of running runs. If no page of a run is open, its output is stored only
// when it ends.
type Watching interface {
	// Watch marks the run as watched for WatchLasts from now. Its replica learns of it with its
	// ControlState. It writes nothing if at least half of WatchLasts is left of the previous mark,
	// or if the run is not running.
	Watch(ctx context.Context, run uuid.UUID) error
	// SaveOutput stores the output of runs so far, in place of the previous one. It leaves out runs
	// whose claims are gone or are being given back. The output at the end of a run replaces it.
	SaveOutput(ctx context.Context, outputs []Output) error
}
