package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"
)

// Jitter returns how much later than its scheduled time a firing starts: at least 0 and less than
// limit. It is spread evenly over the scheduled times of a job, and over the jobs of one scheduled
// time. It is the same on every replica and in every version. It is 0 if limit is not positive.
func Jitter(job string, scheduledAt time.Time, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(job), uint64(scheduledAt.Unix())))
	share, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(limit))
	return time.Duration(share)
}

// NextStart returns the first start of the named job after t, and the scheduled time of this start.
// A start is a scheduled time plus the Delay of the job. Both results are zero times if there is no
// such start. If delays can be longer than the time between two scheduled times, a later scheduled
// time may start before an earlier one.
func (s Schedule) NextStart(job string, t time.Time) (scheduledAt, start time.Time) {
	jitter := s.MaxDelay()
	if jitter <= 0 {
		scheduledAt = s.Next(t)
		return scheduledAt, scheduledAt
	}
	for next := s.Next(t.Add(-jitter)); !next.IsZero() &&
		(scheduledAt.IsZero() || next.Before(start)); next = s.Next(next) {
		if begins := next.Add(s.Delay(job, next)); begins.After(t) &&
			(scheduledAt.IsZero() || begins.Before(start)) {
			scheduledAt, start = next, begins
		}
	}
	return scheduledAt, start
}
