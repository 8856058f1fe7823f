package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Listen is the text in a configuration that NewNginx replaces by the address of nginx.
const Listen = "${LISTEN}"

// Nginx is a running nginx.
type Nginx struct {
	Addr string // host:port

	dir     string
	process *process
}

// nginxConfig is the configuration around the text of the block http. nginx as root would change
// the user of a second process, which could not use the folder.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/log;
events {}
http {
    access_log off;
    client_body_temp_path %[1]s/body;
    proxy_temp_path %[1]s/proxy;
    fastcgi_temp_path %[1]s/fastcgi;
    uwsgi_temp_path %[1]s/uwsgi;
    scgi_temp_path %[1]s/scgi;
%[2]s
}
`

// NewNginx runs nginx with the text in the block http of its configuration until the test ends. The
// text must have Listen as the address of a server. NewNginx returns once nginx accepts
// connections.
func NewNginx(t testing.TB, text string) *Nginx {
	t.Helper()
	program, err := FindBinary("nginx", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nginx-")
	if err != nil {
		t.Fatal(err)
	}
	n := &Nginx{dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("nginx's log:\n%s", lastOutput(n.logPath()))
		}
		if n.process != nil {
			err = n.process.end(syscall.SIGTERM, stopGrace)
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	for range startTries {
		if err = n.start(t.Context(), program, text); err == nil || t.Context().Err() != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Nginx) logPath() string { return filepath.Join(n.dir, "log") }

// start runs nginx on a free port.
func (n *Nginx) start(ctx context.Context, program, text string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	n.Addr = address(port)
	config := filepath.Join(n.dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, n.dir,
		strings.ReplaceAll(text, Listen, n.Addr)), 0o600); err != nil {
		return fmt.Errorf("configuration of nginx: %w", err)
	}
	logFile, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log of nginx: %w", err)
	}
	defer logFile.Close()
	p, err := startProcess(nil, syscall.SIGKILL, n.dir, logFile, program, "-p", n.dir, "-c", config,
		"-e", n.logPath())
	if err != nil {
		return err
	}
	err = p.waitReady(ctx, "nginx", n.logPath(), func(ctx context.Context) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.Addr)
		return err == nil && conn.Close() == nil
	})
	if err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL, stopGrace))
	}
	n.process = p
	return nil
}
