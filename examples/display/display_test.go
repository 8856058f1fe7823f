package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// If asProgram is set, the test binary runs as the example.
const asProgram = "HOLDFAST_EXAMPLE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const atOnce = 5 // requests for one list

func TestFiveRequestsShareOneComputation(t *testing.T) {
	c := startCluster(t)
	answers := c.askAtOnce("orders")
	c.awaitAsked("orders", atOnce)
	computer := c.source.awaitRequest(t, "orders", 1)
	c.source.release("orders")

	first := <-answers
	servers := map[string]bool{first.ServedBy: true}
	for range atOnce - 1 {
		other := <-answers
		servers[other.ServedBy] = true
		checkSame(t, other, first)
	}
	if first.ComputedBy != computer || string(first.Rows) != `["row of orders"]` {
		t.Errorf("got %+v, want the list of %s", first, computer)
	}
	if len(servers) < 3 {
		t.Errorf("served by %v, want at least three replicas", servers)
	}
	for range atOnce {
		checkSame(t, c.get("orders"), first)
	}
	if made := c.source.requests("orders"); len(made) != 1 {
		t.Errorf("computed by %v, want one", made)
	}
}

// HAProxy sends the request of the killed replica to another one (retry-on empty-response), so that
// every client gets a reply.
func TestComputingReplicaIsKilled(t *testing.T) {
	c := startCluster(t)
	answers := c.askAtOnce("orders")
	c.awaitAsked("orders", atOnce)
	dead := c.source.awaitRequest(t, "orders", 1)
	killed := time.Now()
	c.kill(dead)
	c.awaitAsked("orders", atOnce+1)
	successor := c.source.awaitRequest(t, "orders", 2)
	took := time.Since(killed)
	t.Logf("handed over %v after kill -9", took.Round(time.Millisecond))
	if successor == dead || took > lease+5*time.Second {
		t.Errorf("%s computes in the place of %s after %v, want at most the lease of %v", successor,
			dead, took, lease)
	}
	c.source.release("orders")

	first := <-answers
	all := []reply{first}
	for range atOnce - 1 {
		all = append(all, <-answers)
	}
	for _, answer := range all {
		checkSame(t, answer, first)
		if answer.ComputedBy != successor || answer.ServedBy == dead {
			t.Errorf("computed by %s, want %s; served by %s, which is not to be %s",
				answer.ComputedBy, successor, answer.ServedBy, dead)
		}
	}
	checkSame(t, c.get("orders"), first)
	if made := c.source.requests("orders"); len(made) != 2 {
		t.Errorf("computed by %v, want two", made)
	}
}

func TestListTooLargeToShare(t *testing.T) {
	c := startCluster(t)
	c.source.release("large")
	for range 2 {
		answer := c.get("large")
		if answer.ServedBy != answer.ComputedBy || len(answer.Rows) < 1_000_000 {
			t.Errorf("%d bytes computed by %s, served by %s", len(answer.Rows), answer.ComputedBy,
				answer.ServedBy)
		}
	}
	if made := c.source.requests("large"); len(made) != 2 {
		t.Errorf("computed by %v, want one for each request", made)
	}
}

func TestNothingIsComputedWithoutMemcached(t *testing.T) {
	c := startCluster(t)
	if err := c.memcached.Kill(); err != nil {
		t.Fatal(err)
	}
	status, body := fetch(t.Context(), t, c.proxy.URL()+"/list/orders")
	if status != http.StatusServiceUnavailable {
		t.Errorf("got %d, %s", status, body)
	}
	if made := c.source.requests("orders"); len(made) != 0 {
		t.Errorf("computed by %v", made)
	}
}

func TestBadNamesAndBadSources(t *testing.T) {
	c := startCluster(t)
	for path, want := range map[string]int{"/list/a%0Ab": http.StatusBadRequest,
		"/list/missing": http.StatusServiceUnavailable} {
		c.source.release("missing")
		if status, body := fetch(t.Context(), t, c.proxy.URL()+path); status != want {
			t.Errorf("%s: got %d, %s; want %d", path, status, body, want)
		}
	}
}

func TestSource(t *testing.T) {
	server := httptest.NewServer(source{takes: time.Millisecond, log: zerolog.Nop()}.routes())
	t.Cleanup(server.Close)
	status, body := fetch(context.Background(), t, server.URL+"/orders")
	if status != http.StatusOK || body != `["orders 1","orders 2","orders 3"]`+"\n" {
		t.Errorf("got %d, %s", status, body)
	}
}

func TestConfigurationOfHAProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("needs HAProxy")
	}
	program, err := servertest.FindBinary("haproxy", "haproxy")
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command(program, "-c", "-f", "haproxy.cfg").
		CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}

// checkSame checks that two responses contain the same list.
func checkSame(t *testing.T, got, want reply) {
	t.Helper()
	if got.Name != want.Name || got.ComputedBy != want.ComputedBy ||
		!got.ComputedAt.Equal(want.ComputedAt) || string(got.Rows) != string(want.Rows) {
		t.Errorf("got %+v, want the list of %+v", got, want)
	}
}
