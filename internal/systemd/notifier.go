// Package systemd tells systemd the state of this process, by the protocol of sd_notify(3).
package systemd

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Notifier sends the state of this process to systemd. Without systemd it sends nothing, and its
// methods return nil. Methods may be called concurrently.
type Notifier struct {
	socket   *net.UnixAddr // nil without systemd
	watchdog time.Duration // 0: none
}

// sendTimeout bounds the wait for room in the socket.
const sendTimeout = time.Second

// New returns a Notifier for the variables that systemd sets for a service: NOTIFY_SOCKET,
// WATCHDOG_USEC and WATCHDOG_PID. pid is the process id of this process. A process that systemd did
// not start has no NOTIFY_SOCKET.
func New(getenv func(string) string, pid int) (*Notifier, error) {
	name := getenv("NOTIFY_SOCKET")
	switch {
	case name == "":
		return &Notifier{}, nil
	case len(name) < 2 || name[0] != '/' && name[0] != '@':
		return nil, fmt.Errorf("NOTIFY_SOCKET: found %q, expected an absolute path, or @ and the "+
			"name of an abstract socket", name)
	}
	// Package net takes a leading @ for an abstract socket.
	n := &Notifier{socket: &net.UnixAddr{Name: name, Net: "unixgram"}}
	limit := getenv("WATCHDOG_USEC")
	if of := getenv("WATCHDOG_PID"); limit == "" || of != "" && of != strconv.Itoa(pid) {
		return n, nil // no watchdog, or that of another process
	}
	microseconds, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || microseconds <= 0 {
		return nil, fmt.Errorf("WATCHDOG_USEC: found %q, expected microseconds", limit)
	}
	n.watchdog = time.Duration(microseconds) * time.Microsecond
	return n, nil
}

// Enabled reports whether systemd started this process and wants to know its state.
func (n *Notifier) Enabled() bool { return n.socket != nil }

// Watchdog returns the time after which systemd ends a process that has not called Alive. 0 means
// that there is no limit.
func (n *Notifier) Watchdog() time.Duration { return n.watchdog }

// Ready says that the process has started, or that it has reloaded its configuration.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Reloading says that the process reloads its configuration. Ready ends that state.
func (n *Notifier) Reloading() error {
	now, err := monotonic()
	if err != nil {
		return fmt.Errorf("read monotonic clock: %w", err)
	}
	// Type=notify-reload needs the time, and Type=notify ignores it.
	return n.send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(now.Microseconds(), 10))
}

// Stopping says that the process shuts down. systemd waits for its end for at least the time
// within, whatever TimeoutStopSec of the unit says.
func (n *Notifier) Stopping(within time.Duration) error {
	return n.send("STOPPING=1",
		"EXTEND_TIMEOUT_USEC="+strconv.FormatInt(within.Microseconds(), 10))
}

// Status sends one line of text for `systemctl status`.
func (n *Notifier) Status(text string) error {
	return n.send("STATUS=" + strings.ReplaceAll(text, "\n", " "))
}

// Alive restarts the time of Watchdog.
func (n *Notifier) Alive() error { return n.send("WATCHDOG=1") }

// send sends the lines in one datagram.
func (n *Notifier) send(lines ...string) (err error) {
	if n.socket == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, n.socket)
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
