package clustertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const firesEverySecond = `
  - {name: insert, schedule: {every: 1s}, handler: sql, tables: [ledger], params: {statement: SELECT 1}}
`

// awaitServer waits until a replica reports this state of its only memcached.
func (c *cluster) awaitServer(p *replicas.Process, what string, is func(h memcached.Health) bool) {
	c.t.Helper()
	c.await(what, func(ctx context.Context) (bool, error) {
		var view admin.MemcachedView
		if err := p.Get(ctx, "/api/v1/memcached", &view); err != nil {
			return false, err
		}
		if len(view.Servers) != 1 || view.SeenBy != p.Name {
			return false, fmt.Errorf("view %+v", view)
		}
		return is(view.Servers[0]), nil
	})
}

// The replica runs on while memcached restarts, is flushed and is killed. It logs each event once
// and shows it.
func TestMemcachedIsWatched(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{stock: true, memcached: ", watch_every: 100ms",
		jobs: firesEverySecond})
	c.start("a")
	a := c.replicas["a"]
	c.awaitServer(a, "unsafe", func(h memcached.Health) bool {
		return h.State == memcached.StateUnsafe && len(h.Complaints(memcached.Unsafe)) == 3 &&
			strings.HasPrefix(h.Version, "1.")
	})
	if err := c.memcached.Restart(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.awaitServer(a, "restart", func(h memcached.Health) bool { return h.Seen.Restarts == 1 })
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	c.awaitServer(a, "flush", func(h memcached.Health) bool { return h.Seen.Flushes == 1 })
	page := fetch(c.ctx, t, a.URL)
	for _, want := range []string{"restarted and lost its locks", "was flushed and lost its locks",
		"evictions is on"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := c.memcached.Kill(); err != nil {
		t.Fatal(err)
	}
	c.awaitServer(a, "outage", func(h memcached.Health) bool {
		return h.State == memcached.StateUnreachable
	})
	if err := c.memcached.Start(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.awaitServer(a, "return", func(h memcached.Health) bool {
		return h.State == memcached.StateUnsafe && h.Seen.Restarts == 2
	})
	for _, setting := range []string{"evictions", "flush_enabled", "slab_reassign"} {
		c.expectLine(a, `"event":"unsafe"`, `"setting":"`+setting+`"`)
	}
	c.expectLine(a, "memcached was flushed", `"level":"warn"`)
	if n := strings.Count(a.Log(), "memcached restarted"); n != 2 {
		t.Errorf("got %d log lines about two restarts", n)
	}
	c.audit()
}

func TestReplicasWithDifferentServers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{stock: true, jobs: firesEverySecond})
	c.start("a")
	more := servertest.NewMemcached(t)
	c.settings.servers = fmt.Sprintf("%q, %q", c.memcached.Addr(), more.Addr())
	c.start("b")
	for name, p := range c.replicas {
		c.expectLine(p, "replicas have different lists of memcached servers",
			fmt.Sprintf(`"differ_from":[%q]`, map[string]string{"a": "b", "b": "a"}[name]))
		c.await("notice on the page of "+name, func(ctx context.Context) (bool, error) {
			var o admin.Overview
			err := p.Get(ctx, "/api/v1/overview", &o)
			return slices.ContainsFunc(o.Status.Problems, func(p admin.Problem) bool {
				return strings.Contains(p.Text, "two different lists of memcached servers (a / b)")
			}), err
		})
	}
	if err := c.replicas["b"].Stop(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.expectLine(c.replicas["a"], "replicas have the same list of memcached servers again")
	c.audit()
}

// The server accepts only TLS with a password.
func TestMemcachedWithTLSAndPassword(t *testing.T) {
	t.Parallel()
	authority := servertest.NewAuthority(t)
	certificate, key := authority.Issue(t, "127.0.0.1")
	clientCertificate, clientKey := authority.Issue(t, "replica")
	users := servertest.PublicFile(t, "users", []byte("holdfast:"+password+"\n"))
	pair, err := tls.LoadX509KeyPair(clientCertificate, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, settings{stock: true, jobs: firesEverySecond, memcached: fmt.Sprintf(
		", watch_every: 100ms, strict: true, username: holdfast, password_file: password, tls: "+
			"{ca_file: %q, cert_file: %q, key_file: %q}",
		authority.File, clientCertificate, clientKey)})
	writeFile(t, filepath.Join(c.dir, "password"), password+"\n")
	guard := servertest.Guard{TLS: &tls.Config{RootCAs: authority.Pool,
		Certificates: []tls.Certificate{pair}}, User: "holdfast", Password: password}
	c.memcached = servertest.NewGuardedMemcached(t, guard, "-M", "-F", "-o", "no_slab_reassign",
		"-Y", users, "-Z", "-o",
		"ssl_verify_mode=2,ssl_chain_cert="+certificate+",ssl_key="+key+
			",ssl_ca_cert="+authority.File)
	c.start("a", "b")
	c.awaitServer(c.replicas["a"], "safe, with the marks of firings",
		func(h memcached.Health) bool {
			return h.State == memcached.StateSafe && h.Usage.Items > 0
		})
	c.awaitRuns(3, "job = 'insert' AND state = 'succeeded'")
	for name, p := range c.replicas {
		if log := p.Log(); strings.Contains(log, password) ||
			strings.Contains(log, "memcached setting") {
			t.Errorf("log of %s has the password, or complains of a setting:\n%s", name, log)
		}
	}
	c.audit()
}
