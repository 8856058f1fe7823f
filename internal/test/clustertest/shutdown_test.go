package clustertest

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
)

const stopping = "stopping, waiting for runs"

// terminate sends SIGTERM to a replica and waits until the replica has received it.
func (c *cluster) terminate(p *replicas.Process) {
	c.t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	c.awaitLog(p, stopping)
}

// After SIGTERM the run continues to its end, which is recorded. The replica starts nothing new and
// releases all that it held.
func TestStopInARun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{expires: "30s", lease: "10m",
		jobs: ledgerJob("hold", "t", "", "gate: hold") +
			ledgerJob("every", "u", "schedule: {every: 1s}", "") +
			ledgerJob("next", "t", "wait: {attempts: 0, elapsed: 2m, delay: 50ms, backoff: "+
				"constant}", "")})
	c.start("a", "b")
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	p := c.replicas[held.Replica]
	c.terminate(p)
	c.expectNotReady(p, "it is stopping")
	stopped := askOne[string](c, `SELECT clock_timestamp()::text`)
	c.trigger("next")
	c.awaitRun("job = 'next' AND state = 'waiting' AND blocker IS NOT NULL")
	c.awaitRuns(2, "job = 'every' AND state = 'succeeded' AND scheduled_at > $1::timestamptz",
		stopped)

	c.open("hold")
	if err := p.Wait(c.ctx); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	// Its session and its lease would otherwise last much longer.
	c.expect(c.awaitEnd(c.startedRun("next", held.Token).ID), "succeeded", "")
	// A firing with an earlier scheduled time may be on its way to PostgreSQL, so its start may
	// come later.
	if n := askOne[int](c, `SELECT count(*) FROM holdfast.runs
		WHERE replica = $1 AND scheduled_at > $2::timestamptz AND started_at IS NOT NULL`,
		held.Replica, stopped); n != 0 {
		t.Errorf("got %d started runs with scheduled times after the signal, want none", n)
	}
	if !askOne[bool](c, `SELECT ended_at IS NOT NULL FROM holdfast.sessions WHERE replica = $1`,
		held.Replica) {
		t.Error("session of the stopped replica: got it open, want it ended")
	}
	c.audit()
}

func (c *cluster) expectNotReady(p *replicas.Process, why string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, p.URL+"/readyz", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body := make([]byte, 1000)
	n, _ := response.Body.Read(body) // a short answer arrives in one piece
	if response.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(string(body[:n]), why) {
		c.t.Errorf("/readyz: %s, %q, want it unavailable and %q", response.Status, body[:n],
			why)
	}
}

// After the grace period the replica cancels its runs and abandons those that ignore it. It records
// both kinds and shuts down cleanly.
func TestStopAfterTheGracePeriod(t *testing.T) {
	for _, run := range []struct{ name, params string }{
		{"a run that ends with its context", "gate: never"},
		{"a run that ignores its context", "gate: never, deaf: true"},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, settings{grace: "300ms",
				jobs: ledgerJob("hold", "t", "", run.params)})
			c.start("a")
			c.trigger("hold")
			held := c.startedRun("hold", 0)
			if err := c.replicas["a"].Stop(c.ctx); err != nil {
				t.Errorf("it ended with %v, want exit code 0", err)
			}
			c.expect(c.awaitEnd(held.ID), "cancelled", "shutdown")
			c.expectLine(c.replicas["a"], "run ended", held.ID, `"reason":"shutdown"`)
			if n := askOne[int](c, `SELECT count(*) FROM holdfast.claims`); n != 0 {
				t.Errorf("%d claims are left", n)
			}
			c.audit()
		})
	}
}

// The second signal ends the process at once. Its runs are recorded as lost.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{grace: "1h", jobs: ledgerJob("hold", "t", "", "gate: never")})
	c.start("a", "b")
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	p := c.replicas[held.Replica]
	c.terminate(p)
	ended := make(chan error, 1)
	go func() { ended <- p.Wait(c.ctx) }()
	var err error
	for again := true; again; { // signals of the first half second count as one
		select {
		case err = <-ended:
			again = false
		case <-time.After(100 * time.Millisecond):
			if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it ended with %v, want the signal", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want the signal", err)
	}
	c.expect(c.awaitEnd(held.ID), "lost", "session_lost")
	c.audit()
}
