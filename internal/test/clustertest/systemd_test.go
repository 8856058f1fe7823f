package clustertest

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
)

// notifications are the messages that a replica sends to systemd.
type notifications struct {
	*cluster
	path     string      // of the socket
	messages chan string // closed when the test ends
}

// newNotifications reads from a socket until the test ends. A socket has room for few messages, so
// one that nobody reads would lose some.
func newNotifications(c *cluster) *notifications {
	c.t.Helper()
	n := &notifications{cluster: c, path: filepath.Join(c.dir, "notify"),
		messages: make(chan string, 10_000)}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := socket.Close(); err != nil {
			c.t.Error(err)
		}
		for range n.messages { // until the reader has ended
		}
	})
	go func() {
		defer close(n.messages)
		message := make([]byte, 4096)
		for {
			size, err := socket.Read(message)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				c.t.Errorf("read notifications: %v", err)
				return
			}
			n.messages <- string(message[:size])
		}
	}()
	return n
}

// expectMessages waits for the messages in their order. It ignores others in between. Each is the
// beginning of a line.
func (n *notifications) expectMessages(want ...string) {
	n.t.Helper()
	var seen []string
	for len(want) > 0 {
		var message string
		select {
		case message = <-n.messages:
		case <-n.ctx.Done():
		}
		if message == "" {
			n.t.Fatalf("no more messages: got %q, still want %q (%v)", seen, want,
				context.Cause(n.ctx))
		}
		seen = append(seen, message)
		for line := range strings.Lines(message) {
			if len(want) > 0 && strings.HasPrefix(line, want[0]) {
				want = want[1:]
			}
		}
	}
}

// A replica tells systemd when it has started, reloads and stops, and in between that it is alive.
// systemctl status shows why it is not ready.
func TestSystemdGetsTheState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{grace: "20s", jobs: ledgerJob("hold", "t", "", "gate: hold")})
	n := newNotifications(c)
	spec := c.spec("a")
	spec.Env = append(spec.Env, "NOTIFY_SOCKET="+n.path, "WATCHDOG_USEC=400000")
	p, err := replicas.Start(c.ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	c.replicas["a"] = p
	n.expectMessages("READY=1", "STATUS=ready", "WATCHDOG=1", "WATCHDOG=1")

	c.reload(p, func(config string) string { return config + "mistake: 1\n" })
	n.expectMessages("RELOADING=1", "MONOTONIC_USEC=", "READY=1", "WATCHDOG=1")

	c.trigger("hold")
	held := c.startedRun("hold", 0)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The unit may have a shorter TimeoutStopSec than shutdown_grace.
	n.expectMessages("STOPPING=1", "EXTEND_TIMEOUT_USEC=35000000",
		"STATUS=replica is not ready: it is stopping", "WATCHDOG=1")
	c.open("hold")
	if err := p.Wait(c.ctx); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	c.audit()
}
