package charts

import (
	"testing"
	"time"
)

// TestWaitAxis checks the bars of waits that end within the axis, after it and never, and of a wait
// that has only begun.
func TestWaitAxis(t *testing.T) {
	now := time.Date(2026, 3, 14, 2, 40, 0, 0, time.UTC)
	after := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	axis := NewWaitAxis(now, after(-40), []time.Time{after(10), {}})
	if got := axis.NowX(); got != 80 {
		t.Errorf("now is at %s, want 80%%: the axis ends with the last wait", got)
	}
	for name, c := range map[string]struct {
		since, end time.Time
		want       WaitBar
	}{
		"ends":      {after(-20), after(5), WaitBar{X: 40, W: 40, RestX: 80, RestW: 10, Ends: true, EndX: 90}},
		"ends late": {after(-20), after(30), WaitBar{X: 40, W: 40, RestX: 80, RestW: 20, EndX: 100}},
		"no limit":  {after(-40), time.Time{}, WaitBar{X: 0, W: 80, RestX: 80}},
		"is over":   {after(-40), after(-1), WaitBar{X: 0, W: 80, RestX: 80}},
		"begins":    {now, after(10), WaitBar{X: 79.5, W: 0.5, RestX: 80, RestW: 20, Ends: true, EndX: 100}},
	} {
		if got := axis.Bar(c.since, c.end); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if n := len(axis.Ticks()); n < 2 || n > axisTicks+1 {
		t.Errorf("the axis has %d times", n)
	}
	far := NewWaitAxis(now, after(-40), []time.Time{after(1000)})
	if got := far.NowX(); got != 50 {
		t.Errorf("now is at %s, want 50%%: the past has half of the axis", got)
	}
	if got := NewWaitAxis(now, now, nil).Bar(now.Add(-time.Second), time.Time{}); got.W != 10 {
		t.Errorf("a wait of a second is %s wide, want 10%%: the axis has at least 10 s", got.W)
	}
}
