package engine

import (
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// gateTTL is longer than the clock differences of replicas. A lost gate costs one useless start.
const gateTTL = time.Minute

// gateName returns the gate of the firing, for the definition that this replica has.
func (p pending) gateName() string {
	return gateName(p.Firing, p.entry.activeVersion.own())
}

// gateName returns the gate of the firing. It is the same on every replica with the same
// definition. A replica with an older definition may not start the firing, so it must not win the
// same gate.
func gateName(f storage.Firing, version int64) string {
	var room [40]byte
	suffix := strconv.AppendInt(append(room[:0], '@'), f.ScheduledAt.UnixMicro(), 10)
	suffix = strconv.AppendInt(append(suffix, '@'), version, 10)
	return f.Job + string(suffix)
}
