package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"
)

// Jitter returns how much later than its due a firing starts: at least nothing
// and less than most, spread evenly over a job's dues and over the jobs of one
// due, and the same on every replica and in every version. It is nothing if most is
// not positive.
func Jitter(job string, due time.Time, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(job), uint64(due.Unix())))
	share, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(most))
	return time.Duration(share)
}
