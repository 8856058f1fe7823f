package access

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestAttemptsConformance(t *testing.T) {
	jobstest.RunAttempts(t, func(*testing.T) (first, second storage.Attempts) {
		own := newAttemptCounts()
		return own, own
	})
}
