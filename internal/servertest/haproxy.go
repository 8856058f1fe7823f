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

// HAProxy is a running HAProxy. It hands each HTTP request to the next of its
// servers in turn. One whose server can't be reached, or ends before it has
// answered anything, goes to another server: requests must not mind being
// served twice.
type HAProxy struct {
	dir     string
	port    int
	process *process
}

// StartHAProxy starts HAProxy on a free loopback port before the servers, each
// a host:port, and returns once it takes requests.
func StartHAProxy(ctx context.Context, servers ...string) (*HAProxy, error) {
	program, err := FindBinary("haproxy", "haproxy")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "haproxy-")
	if err != nil {
		return nil, fmt.Errorf("folder for HAProxy: %w", err)
	}
	h := &HAProxy{dir: dir}
	for range startTries {
		if h.port, err = freePort(); err != nil {
			break
		}
		if err = h.start(ctx, program, servers); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return h, nil
}

// NewHAProxy is StartHAProxy for one test, which stops it at its end.
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

// URL returns http://host:port.
func (h *HAProxy) URL() string { return "http://" + address(h.port) }

// Stop ends the process with all its connections and removes its folder. It may
// be called again.
func (h *HAProxy) Stop() error {
	return errors.Join(h.process.end(syscall.SIGTERM, stopGrace), os.RemoveAll(h.dir))
}

func (h *HAProxy) start(ctx context.Context, program string, servers []string) error {
	monitor := "/haproxy-" + rand.Text() // another program on its port does not know it
	config, logPath := filepath.Join(h.dir, "haproxy.cfg"), filepath.Join(h.dir, "log")
	if err := os.WriteFile(config, []byte(haproxyConfig(address(h.port), monitor, servers)), 0o600); err != nil {
		return fmt.Errorf("configuration of HAProxy: %w", err)
	}
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log of HAProxy: %w", err)
	}
	defer logFile.Close()
	p, err := startProcess(nil, syscall.SIGKILL, h.dir, logFile, program, "-db", "-f", config)
	if err != nil {
		return err
	}
	err = p.waitReady(ctx, "HAProxy", logPath, func(ctx context.Context) bool { return answersOK(ctx, h.URL()+monitor) })
	if err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL, stopGrace))
	}
	h.process = p
	return nil
}

// haproxyConfig looks at each server every 200 ms, and leaves it out while it
// takes no connections.
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
