package servertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// NewBalancer runs an unchanged configuration for users of HAProxy until the test ends. It serves
// TLS on a free loopback port and forwards to the servers, each a host:port. The configuration gets
// its address and the servers from the environment variables HAPROXY_BIND, REPLICA_1 and so on.
// certificate is a file with the certificate and its key. NewBalancer returns once the
// configuration's own checks find all servers of the backend up.
func NewBalancer(t testing.TB, file, certificate, backend string, servers ...string) *HAProxy {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := startHAProxy(t.Context(), "https", func(h *HAProxy) (string, error) {
		text := fmt.Sprintf("global\n    stats socket %s level admin\n    setenv HAPROXY_BIND "+
			"\"%s ssl crt %s\"\n", h.socket(), address(h.port), certificate)
		for i, server := range servers {
			text += fmt.Sprintf("    setenv REPLICA_%d %s\n", i+1, server)
		}
		return text, nil
	}, func(_ context.Context, h *HAProxy) bool {
		up, err := h.Up(backend)
		return err == nil && up == len(servers)
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("HAProxy's log:\n%s", lastOutput(b.logPath()))
		}
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Only makes a backend send new requests only to the named server, or to all servers if name is
// empty. It does not affect requests under way.
func (h *HAProxy) Only(backend, server string) error {
	states, err := h.states(backend)
	if err != nil {
		return err
	}
	if _, known := states[server]; !known && server != "" {
		return fmt.Errorf("HAProxy has no server %q in %s", server, backend)
	}
	var drained []string
	for name := range states {
		if server == "" || name == server {
			if err := h.set(backend, name, "ready"); err != nil { // first: one is always up
				return err
			}
		} else {
			drained = append(drained, name)
		}
	}
	for _, name := range drained {
		if err := h.set(backend, name, "drain"); err != nil {
			return err
		}
	}
	return nil
}

func (h *HAProxy) set(backend, server, state string) error {
	answer, err := h.command("set server " + backend + "/" + server + " state " + state)
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "" {
		return fmt.Errorf("HAProxy: server %s: %s", server, answer)
	}
	return nil
}

// Up returns the number of servers of a backend that its checks find up.
func (h *HAProxy) Up(backend string) (int, error) {
	states, err := h.states(backend)
	up := 0
	for _, state := range states {
		if strings.HasPrefix(state, "UP") {
			up++
		}
	}
	return up, err
}

// states returns the states of a backend's servers by name.
func (h *HAProxy) states(backend string) (map[string]string, error) {
	const name, status = 1, 17 // columns
	answer, err := h.command("show stat " + backend + " 4 -1")
	if err != nil {
		return nil, err
	}
	states := make(map[string]string)
	for line := range strings.Lines(answer) {
		if fields := strings.Split(line, ","); len(fields) > status &&
			!strings.HasPrefix(line, "#") {
			states[fields[name]] = fields[status]
		}
	}
	return states, nil
}

// command sends a command to HAProxy's admin socket.
func (h *HAProxy) command(line string) (answer string, err error) {
	conn, err := net.DialTimeout("unix", h.socket(), stopGrace)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(stopGrace)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}
