package access

import "time"

// budget bounds the lines of a log in each minute. It is not safe for concurrent use.
type budget struct {
	startedAt time.Time // the current minute
	written   int
	leftOut   int
}

// take reports whether another line may be written, with at most most lines a minute, and how many
// were left out before it.
func (b *budget) take(now time.Time, most int) (allowed bool, leftOut int) {
	if now.Sub(b.startedAt) >= time.Minute {
		b.startedAt, b.written = now, 0
	}
	if b.written >= most {
		b.leftOut++
		return false, 0
	}
	b.written++
	leftOut, b.leftOut = b.leftOut, 0
	return true, leftOut
}
