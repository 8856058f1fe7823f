package clustertest

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
)

// notifications is the socket to which a replica sends its state under systemd.
type notifications struct {
	*cluster
	socket *net.UnixConn
	path   string
}

// newNotifications listens on a socket until the test ends.
func newNotifications(c *cluster) *notifications {
	c.t.Helper()
	n := &notifications{cluster: c, path: filepath.Join(c.dir, "notify")}
	var err error
	n.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := n.socket.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return n
}

// expectMessages waits for the messages in their order. It ignores others in between. Each is the
// beginning of a line.
func (n *notifications) expectMessages(want ...string) {
	n.t.Helper()
	limit, _ := n.ctx.Deadline()
	if err := n.socket.SetReadDeadline(limit); err != nil {
		n.t.Fatal(err)
	}
	var seen []string
	for len(want) > 0 {
		message := make([]byte, 4096)
		size, err := n.socket.Read(message)
		if err != nil {
			n.t.Fatalf("%v: got %q, still want %q", err, seen, want)
		}
		seen = append(seen, string(message[:size]))
		for line := range strings.Lines(string(message[:size])) {
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
