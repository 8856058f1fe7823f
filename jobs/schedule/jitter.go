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

// NextStart returns the due that starts first after t, and when it starts, by
// the Delay of the job of that name; zero times where there is none. Where
// delays may be longer than the time between two dues, a later due may start
// before an earlier one.
func (s Schedule) NextStart(job string, t time.Time) (due, start time.Time) {
	if s.jitter <= 0 {
		due = s.Next(t)
		return due, due
	}
	for next := s.Next(t.Add(-s.jitter)); !next.IsZero() && (due.IsZero() || next.Before(start)); next = s.Next(next) {
		if begins := next.Add(s.Delay(job, next)); begins.After(t) && (due.IsZero() || begins.Before(start)) {
			due, start = next, begins
		}
	}
	return due, start
}
