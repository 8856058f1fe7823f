package words

import (
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// WhyOf returns the reason of a run in words.
func WhyOf(s storage.RunInterval) string {
	return Why(storage.Record{State: s.State, Reason: s.Reason, BlockedBy: s.BlockedBy})
}
