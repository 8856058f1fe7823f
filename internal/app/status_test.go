package app

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/admin/status"
)

const (
	neutral, amber, red = status.Severity("neutral"), status.Severity("amber"),
		status.Severity("red")
)

// checkedStatus is a status that counts its checks.
type checkedStatus struct {
	mu       sync.Mutex
	severity status.Severity
	takes    time.Duration // of each check
	checks   int
}

// becomes sets what the next checks find, and how long they take.
func (c *checkedStatus) becomes(severity status.Severity, takes time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severity, c.takes = severity, takes
}

// counted returns the number of checks so far.
func (c *checkedStatus) counted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checks
}

func (c *checkedStatus) check(ctx context.Context) status.Status {
	c.mu.Lock()
	c.checks++
	severity, takes := c.severity, c.takes
	c.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	return status.Status{Severity: severity}
}

// current returns the current severity as a scrape of the metrics reads it, and "" if it is absent.
func (m *statusMetric) current() (current string) {
	for severity, is := range m.severities() {
		if is {
			current += severity
		}
	}
	return current
}

// runStatus runs a test with a metric of the status.
func runStatus(t *testing.T, test func(m *statusMetric, c *checkedStatus)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, c := newStatusMetric(), &checkedStatus{severity: neutral}
		if got := m.current(); got != "" {
			t.Errorf("before Run: got %q", got)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.run(ctx, c.check) }()
		synctest.Wait()
		test(m, c)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := m.current(); got != "" {
			t.Errorf("after Run: got %q", got)
		}
	})
}

// The first scrape waits for the first check. While the metrics are read, each scrape has the
// status of the last check, which is at most 15 s old.
func TestStatusIsCheckedWhileItIsRead(t *testing.T) {
	runStatus(t, func(m *statusMetric, c *checkedStatus) {
		time.Sleep(time.Hour)
		if n := c.counted(); n > 0 {
			t.Fatalf("got %d checks before the first scrape", n)
		}
		const takes = 100 * time.Millisecond
		c.becomes(neutral, takes)
		if got := m.current(); got != string(neutral) {
			t.Fatalf("first scrape: got %q", got)
		}
		c.becomes(red, takes)
		time.Sleep(statusInterval + takes + time.Millisecond)
		for range 10 {
			if got := m.current(); got != string(red) {
				t.Fatalf("got %q, want red", got)
			}
			time.Sleep(time.Minute)
		}
		n, want := c.counted(), int((10*time.Minute+statusInterval)/statusInterval)
		if n < want-1 || n > want+1 {
			t.Errorf("got %d checks in 10 minutes, want about %d", n, want)
		}
	})
}

// A replica whose metrics are not read any more stops checking. The next scrape does not get the
// status of the last check.
func TestStatusIsForgottenWhileItIsNotRead(t *testing.T) {
	runStatus(t, func(m *statusMetric, c *checkedStatus) {
		m.current()
		time.Sleep(statusIdle + 2*statusInterval)
		checks := c.counted()
		time.Sleep(time.Hour)
		if n := c.counted() - checks; n != 0 {
			t.Errorf("got %d checks in an hour without scrapes, want none", n)
		}
		c.becomes(amber, 0)
		if got := m.current(); got != string(amber) {
			t.Errorf("after an hour: got %q, want amber", got)
		}
	})
}

// A scrape does not wait long for a check that takes long, and the next one has its result.
func TestScrapeDoesNotWaitForASlowStatus(t *testing.T) {
	runStatus(t, func(m *statusMetric, c *checkedStatus) {
		const takes = 10 * time.Second
		c.becomes(red, takes)
		start := time.Now()
		if got := m.current(); got != "" || time.Since(start) > statusTimeout {
			t.Errorf("got %q after %s", got, time.Since(start))
		}
		time.Sleep(takes)
		if got := m.current(); got != string(red) {
			t.Errorf("next scrape: got %q, want red", got)
		}
	})
}
