package schedule

import (
	"fmt"
	"time"
)

// interval is due at every multiple of its seconds since 1970-01-01T00:00:00Z.
type interval int64

// maxEvery is the longest interval; longer ones are counted in months or years.
const maxEvery = 1000 * 24 * time.Hour

func newInterval(d time.Duration) (rule, error) {
	if d < time.Second || d%time.Second != 0 {
		return nil, fmt.Errorf("found %s, expected whole seconds, at least 1s", d)
	}
	if d > maxEvery {
		return nil, fmt.Errorf("found %s, expected at most %s; longer ones are written as 3 years",
			d, maxEvery)
	}
	return interval(d / time.Second), nil
}

func parseEvery(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("found %q, expected a duration such as 90s or 1h30m", s)
	}
	if d == 0 {
		return 0, fmt.Errorf("found %q, expected at least 1s", s)
	}
	return d, nil
}

func (i interval) next(t time.Time) (time.Time, bool) {
	length := int64(i)
	into := t.Unix() % length
	if into < 0 {
		into += length
	}
	return time.Unix(t.Unix()-into+length, 0), true
}

// once is due at one time.
type once time.Time

func newOnce(at time.Time) (rule, error) {
	if at.Nanosecond() != 0 {
		return nil, fmt.Errorf("found %s, expected a whole second", at.Format(time.RFC3339Nano))
	}
	if year := at.UTC().Year(); year < 1 || year > lastYear {
		return nil, fmt.Errorf("found the year %d, expected 1 to %d", year, lastYear)
	}
	return once(time.Unix(at.Unix(), 0)), nil
}

func (o once) next(t time.Time) (time.Time, bool) {
	return time.Time(o), time.Time(o).After(t)
}
