package engine

import (
	"testing"
	"time"
)

// An adopted run keeps its position among those that wait for a resource, until its first attempt.
func TestAdoptedRunKeepsItsPosition(t *testing.T) {
	now := time.Unix(1000, 0)
	f := &firing{pending: pending{since: now, queued: now.Add(-time.Minute)}}
	if got := f.position().since; !got.Equal(f.queued) {
		t.Errorf("before its first attempt: got %s, want %s", got, f.queued)
	}
	f.requeued = now.Add(-time.Second)
	if got := f.position().since; !got.Equal(f.requeued) {
		t.Errorf("after an attempt: got %s, want %s", got, f.requeued)
	}
}
