package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

const (
	replicaCount = 4
	lease        = 10 * time.Second
	testTimeout  = 2 * time.Minute
	pollEvery    = 10 * time.Millisecond
)

// cluster is a set of replicas, as processes, behind HAProxy.
type cluster struct {
	t         *testing.T
	ctx       context.Context
	memcached *servertest.Memcached
	source    *plannedSource
	replicas  map[string]*replicas.Process
	proxy     *servertest.HAProxy
	dead      string // the replica that was killed
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts memcached, HAProxy and four replicas")
	}
	// The replicas outlive the test's context, so that they can shut down cleanly.
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	c := &cluster{t: t, ctx: ctx, memcached: servertest.NewMemcached(t),
		source: newPlannedSource(t), replicas: map[string]*replicas.Process{}}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Cleanup(c.stop)
	for i := range replicaCount {
		name := fmt.Sprintf("replica-%d", i+1)
		replica, err := replicas.Start(ctx, replicas.Spec{
			Program: program, Name: name, Dir: dir, Env: []string{asProgram + "=1"},
			Args: []string{
				"-listen", "${LISTEN}", "-name", "${REPLICA}", "-memcached", c.memcached.Addr(),
				"-source", c.source.url, "-lease", lease.String(),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.replicas[name] = replica
	}
	var addresses []string
	for _, replica := range c.replicas {
		if err := replica.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, strings.TrimPrefix(replica.URL, "http://"))
	}
	c.proxy = servertest.NewHAProxy(t, addresses...)
	return c
}

// stop shuts the replicas down.
func (c *cluster) stop() {
	var all sync.WaitGroup
	for name, replica := range c.replicas {
		if name == c.dead {
			continue
		}
		all.Go(func() {
			if err := replica.Stop(c.ctx); err != nil {
				c.t.Errorf("%s ended with %v\n%s", name, err, replica.Tail(4000))
			}
		})
	}
	all.Wait()
}

// kill ends a replica with SIGKILL.
func (c *cluster) kill(name string) {
	c.t.Helper()
	c.dead = name
	if err := c.replicas[name].Kill(); err != nil {
		c.t.Error(err)
	}
}

// get requests a list through HAProxy.
func (c *cluster) get(list string) reply {
	var answer reply
	status, body := fetch(c.ctx, c.t, c.proxy.URL()+"/list/"+list)
	if status != http.StatusOK {
		c.t.Errorf("list %s: %d, %s", list, status, body)
		return answer
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		c.t.Error(err)
	}
	return answer
}

// askAtOnce requests a list several times concurrently and returns the responses as they arrive.
func (c *cluster) askAtOnce(list string) <-chan reply {
	answers := make(chan reply, atOnce)
	for range atOnce {
		go func() { answers <- c.get(list) }()
	}
	return answers
}

// awaitAsked waits until replicas have received that many requests for the list.
func (c *cluster) awaitAsked(list string, want int) {
	c.t.Helper()
	c.await(fmt.Sprintf("%d requests for list %s", want, list), func() bool {
		asked := 0
		for _, replica := range c.replicas {
			for line := range strings.Lines(replica.Log()) {
				if strings.Contains(line, "list asked for") &&
					strings.Contains(line, `"list":"`+list+`"`) {
					asked++
				}
			}
		}
		return asked >= want
	})
}

func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	for tick := time.NewTicker(pollEvery); !done(); {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.t.Fatalf("%s: never", what)
		}
	}
}

// plannedSource makes each list when the test allows it, and records which replicas requested it.
type plannedSource struct {
	url string

	mu      sync.Mutex
	asked   map[string][]string // the replicas, by list
	let     map[string]chan struct{}
	changed chan struct{} // closed and replaced at each request
}

func newPlannedSource(t *testing.T) *plannedSource {
	s := &plannedSource{asked: map[string][]string{}, let: map[string]chan struct{}{},
		changed: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *plannedSource) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	name := strings.TrimPrefix(request.URL.Path, "/")
	s.mu.Lock()
	s.asked[name] = append(s.asked[name], request.Header.Get("Replica"))
	close(s.changed)
	s.changed = make(chan struct{})
	let := s.gate(name)
	s.mu.Unlock()
	select {
	case <-let:
	case <-request.Context().Done():
		return
	}
	switch name {
	case "missing":
		http.NotFound(w, request)
	case "large":
		fmt.Fprintf(w, "[%q]", bytes.Repeat([]byte("x"), 1_000_000))
	default:
		fmt.Fprintf(w, "[%q]", "row of "+name)
	}
}

func (s *plannedSource) gate(list string) chan struct{} {
	if s.let[list] == nil {
		s.let[list] = make(chan struct{})
	}
	return s.let[list]
}

// release lets the list be computed, for waiting and later requests.
func (s *plannedSource) release(list string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate(list):
	default:
		close(s.gate(list))
	}
}

// requests returns the replicas that have requested the list.
func (s *plannedSource) requests(list string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked[list]...)
}

// awaitRequest returns the replica that sent the nth request for the list.
func (s *plannedSource) awaitRequest(t *testing.T, list string, nth int) string {
	t.Helper()
	for deadline := time.After(testTimeout); ; {
		s.mu.Lock()
		asked, changed := s.asked[list], s.changed
		s.mu.Unlock()
		if len(asked) >= nth {
			return asked[nth-1]
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("list %s was not asked for %d times", list, nth)
		}
	}
}

func fetch(ctx context.Context, t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(body)
}
