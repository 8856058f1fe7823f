package access

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestAttemptsConformance(t *testing.T) {
	jobstest.RunLoginAttempts(t, func(*testing.T) (first, second storage.LoginAttempts) {
		own := newAttemptCounts()
		return own, own
	})
}
