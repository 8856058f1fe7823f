package servertest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

func TestHAProxyTakesTurns(t *testing.T) {
	skipWithShort(t)
	var servers []string
	for i := range 3 {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, i)
		}))
		t.Cleanup(server.Close)
		servers = append(servers, server.Listener.Addr().String())
	}
	proxy := servertest.NewHAProxy(t, servers...)
	var seen strings.Builder
	for range 6 {
		seen.WriteString(fetch(t, proxy.URL()))
	}
	if got := seen.String(); got != "012012" {
		t.Errorf("served by %s, want 012012", got)
	}
}

// The first server closes its connection without an answer, as one does whose
// process is killed.
func TestHAProxyRepeatsRequestOfStoppedServer(t *testing.T) {
	skipWithShort(t)
	var asked atomic.Int64
	dying := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(dying.Close)
	living := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "living")
	}))
	t.Cleanup(living.Close)
	proxy := servertest.NewHAProxy(t, dying.Listener.Addr().String(),
		living.Listener.Addr().String())
	if got := fetch(t, proxy.URL()); got != "living" || asked.Load() != 1 {
		t.Errorf("got %q, and the other was asked %d times", got, asked.Load())
	}
}

func TestHAProxyStopIsFinal(t *testing.T) {
	skipWithShort(t)
	proxy := servertest.NewHAProxy(t, "127.0.0.1:1")
	for range 2 {
		if err := proxy.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(proxy.URL(), "http://")); err == nil {
		conn.Close()
		t.Error("the port still has a listener")
	}
}

func TestHAProxyReportsItsError(t *testing.T) {
	skipWithShort(t)
	proxy, err := servertest.StartHAProxy(t.Context(), "no address")
	if err == nil {
		proxy.Stop()
		t.Fatal("start with an unusable server: got success, want an error")
	}
	if !strings.Contains(err.Error(), "server-1") {
		t.Errorf("the error does not say what HAProxy said: %v", err)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %s %s (%v), want 200", url, response.Status, body, err)
	}
	return string(body)
}
