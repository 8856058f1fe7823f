package servertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// HAProxy is a running HAProxy. It sends each HTTP request to the next of its servers in turn. It
// repeats a request at another server if it cannot reach the first, or if the first ends without an
// answer. So a request may be served twice.
type HAProxy struct {
	dir     string
	scheme  string
	port    int
	process *process
}

// StartHAProxy starts HAProxy on a free loopback port and returns once it accepts requests. servers
// are the host:port of each server.
func StartHAProxy(ctx context.Context, servers ...string) (*HAProxy, error) {
	monitor := "/haproxy-" + rand.Text() // another program on the port does not serve this path
	return startHAProxy(ctx, "http", func(h *HAProxy) (string, error) {
		return haproxyConfig(address(h.port), monitor, servers), nil
	}, func(ctx context.Context, h *HAProxy) bool { return answersOK(ctx, h.URL()+monitor) })
}

func startHAProxy(ctx context.Context, scheme string, config func(h *HAProxy) (string, error),
	ready func(ctx context.Context, h *HAProxy) bool, more ...string) (*HAProxy, error) {
	program, err := FindBinary("haproxy", "haproxy")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "haproxy-")
	if err != nil {
		return nil, fmt.Errorf("folder for HAProxy: %w", err)
	}
	h := &HAProxy{dir: dir, scheme: scheme}
	for range startTries {
		if h.port, err = freePort(); err != nil {
			break
		}
		var text string
		if text, err = config(h); err != nil {
			break
		}
		if err = h.start(ctx, program, text, ready, more); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return h, nil
}

// NewHAProxy is StartHAProxy for one test. The test stops it at its end.
func NewHAProxy(t testing.TB, servers ...string) *HAProxy {
	t.Helper()
	h, err := StartHAProxy(t.Context(), servers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// URL returns the address as scheme://host:port.
func (h *HAProxy) URL() string { return h.scheme + "://" + address(h.port) }

// Log returns the log up to now.
func (h *HAProxy) Log() string {
	text, err := os.ReadFile(h.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (h *HAProxy) logPath() string { return filepath.Join(h.dir, "log") }

func (h *HAProxy) socket() string { return filepath.Join(h.dir, "admin") }

// Stop ends the process with all its connections and removes its folder. It may be called more than
// once.
func (h *HAProxy) Stop() error {
	return errors.Join(h.process.end(syscall.SIGTERM, stopGrace), os.RemoveAll(h.dir))
}

// start runs the process with a configuration and further files.
func (h *HAProxy) start(ctx context.Context, program, text string,
	ready func(ctx context.Context, h *HAProxy) bool, more []string) error {
	config := filepath.Join(h.dir, "haproxy.cfg")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("configuration of HAProxy: %w", err)
	}
	logFile, err := os.OpenFile(h.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log of HAProxy: %w", err)
	}
	defer logFile.Close()
	args := []string{"-db", "-f", config}
	for _, file := range more {
		args = append(args, "-f", file)
	}
	p, err := startProcess(nil, syscall.SIGKILL, h.dir, logFile, program, args...)
	if err != nil {
		return err
	}
	err = p.waitReady(ctx, "HAProxy", h.logPath(), func(ctx context.Context) bool {
		return ready(ctx, h)
	})
	if err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL, stopGrace))
	}
	h.process = p
	return nil
}

// haproxyConfig returns a configuration that checks each server every 200 ms and excludes it while
// it accepts no connections.
func haproxyConfig(listen, monitor string, servers []string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `global
    nbthread 1
defaults
    mode http
    timeout connect 2s
    timeout client 2m
    timeout server 2m
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response
frontend all
    bind %s
    monitor-uri %s
    default_backend servers
backend servers
    balance roundrobin
    default-server check inter 200ms
`, listen, monitor)
	for i, server := range servers {
		fmt.Fprintf(&text, "    server server-%d %s\n", i+1, server)
	}
	return text.String()
}

func answersOK(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
