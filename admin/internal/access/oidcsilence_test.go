package access

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// TestSignInPageDoesNotWaitForTheProvider checks a provider that accepts connections and never
// replies.
func TestSignInPageDoesNotWaitForTheProvider(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var taken []net.Conn
		for {
			connection, err := listener.Accept()
			if err != nil {
				for _, c := range taken {
					err = errors.Join(err, c.Close())
				}
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			taken = append(taken, connection)
		}
	}()
	policy := newTestProvider(t).policy(t)
	policy.OIDC.Issuer = "http://" + listener.Addr().String()
	guard := newGuard(t, policy)
	handler := handlerOf(guard)
	for i := range 20 {
		start := time.Now()
		reply := accesstest.Ask(handler, http.MethodGet, "/login")
		// A request to the provider would end after 5 s.
		if took := time.Since(start); took > 4*time.Second || reply.Code != http.StatusOK {
			t.Errorf("GET /login %d: %d after %s", i+1, reply.Code, took)
		}
	}
	guard.Close()
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	<-closed
}
