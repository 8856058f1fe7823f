package systemd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// environment returns a lookup of the variables in pairs.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// Each message is one datagram, to sockets with a path and to abstract ones.
func TestMessages(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{filepath.Join(folder, "notify"), "@" + folder} {
		t.Run(name[:1], func(t *testing.T) {
			socket, err := net.ListenUnixgram("unixgram",
				&net.UnixAddr{Name: name, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			n, err := New(environment("NOTIFY_SOCKET", name, "WATCHDOG_USEC", "30000000"), 7)
			if err != nil {
				t.Fatal(err)
			}
			if !n.Enabled() || n.Watchdog() != 30*time.Second {
				t.Errorf("got enabled %t, watchdog %s", n.Enabled(), n.Watchdog())
			}
			for _, message := range []struct {
				send func() error
				want string
			}{
				{n.Ready, "READY=1"},
				{n.Alive, "WATCHDOG=1"},
				{func() error { return n.Status("two\nlines") }, "STATUS=two lines"},
				{func() error { return n.Stopping(45 * time.Second) },
					"STOPPING=1\nEXTEND_TIMEOUT_USEC=45000000"},
				{n.Reloading, "RELOADING=1\nMONOTONIC_USEC="},
			} {
				if err := message.send(); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 200)
				if err := socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				size, err := socket.Read(got)
				text := string(got[:size])
				if rest, cut := strings.CutPrefix(text, message.want); err != nil || !cut ||
					rest != "" && !strings.HasSuffix(message.want, "USEC=") {
					t.Errorf("got %q (%v), want %q", text, err, message.want)
				}
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		name     string
		pairs    []string
		watchdog time.Duration
		mistake  string
	}{
		{"without systemd", []string{"WATCHDOG_USEC", "5"}, 0, ""},
		{"no watchdog", []string{"NOTIFY_SOCKET", "/n"}, 0, ""},
		{"watchdog", []string{"NOTIFY_SOCKET", "/n", "WATCHDOG_USEC", "5000", "WATCHDOG_PID", "7"},
			5 * time.Millisecond, ""},
		{"watchdog of another process", []string{"NOTIFY_SOCKET", "/n", "WATCHDOG_USEC", "5000",
			"WATCHDOG_PID", "8"}, 0, ""},
		{"socket of another kind", []string{"NOTIFY_SOCKET", "vsock:2:1234"}, 0,
			`NOTIFY_SOCKET: found "vsock:2:1234", expected an absolute path, or @ and the name of ` +
				`an abstract socket`},
		{"no name", []string{"NOTIFY_SOCKET", "@"}, 0, `NOTIFY_SOCKET: found "@", expected an ` +
			`absolute path, or @ and the name of an abstract socket`},
		{"no number", []string{"NOTIFY_SOCKET", "/n", "WATCHDOG_USEC", "1s"}, 0,
			`WATCHDOG_USEC: found "1s", expected microseconds`},
		{"no time", []string{"NOTIFY_SOCKET", "/n", "WATCHDOG_USEC", "0"}, 0,
			`WATCHDOG_USEC: found "0", expected microseconds`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := New(environment(c.pairs...), 7)
			if c.mistake != "" {
				if err == nil || err.Error() != c.mistake {
					t.Errorf("got %v, want %s", err, c.mistake)
				}
				return
			}
			if err != nil || n.Watchdog() != c.watchdog {
				t.Errorf("got %+v, %v, want watchdog %s", n, err, c.watchdog)
			}
		})
	}
}

// A process that systemd did not start sends nothing.
func TestWithoutSystemd(t *testing.T) {
	n, err := New(environment(), 7)
	if err != nil || n.Enabled() {
		t.Fatalf("got %+v, %v", n, err)
	}
	for _, send := range []func() error{n.Ready, n.Alive, n.Reloading} {
		if err := send(); err != nil {
			t.Error(err)
		}
	}
}
