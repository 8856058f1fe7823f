package admin

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
)

func TestAttemptsConformance(t *testing.T) {
	jobstest.RunAttempts(t, func(*testing.T) (first, second jobs.Attempts) {
		own := newAttemptCounts()
		return own, own
	})
}
