package memcached_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// TestLifetimesStayWithinTheProtocol checks the TTL that the server receives. 0 would mean no
// expiry, and more than 30 days a time in 1970.
func TestLifetimesStayWithinTheProtocol(t *testing.T) {
	_, proxy, b := throughProxy(t, long)
	var mu sync.Mutex
	var sent []string
	proxy.OnRequest(func(request []byte) servertest.Fate {
		line, _, _ := strings.Cut(string(request), "\r\n")
		mu.Lock()
		defer mu.Unlock()
		if words := strings.Fields(line); len(words) > 3 &&
			(words[0] == "add" || words[0] == "cas") {
			sent = append(sent, words[0]+" "+words[3])
		}
		return servertest.Pass
	})
	for i, c := range []struct {
		ttl  time.Duration
		want string
	}{
		{-time.Second, "1"}, {0, "1"}, {500 * time.Millisecond, "1"}, {time.Second, "1"}, {1999 * time.Millisecond, "1"},
		{30 * 24 * time.Hour, "2592000"}, {30*24*time.Hour + time.Second, "2592000"}, {31 * 24 * time.Hour, "2592000"}, {1 << 62, "2592000"},
	} {
		mu.Lock()
		sent = nil
		mu.Unlock()
		key := fmt.Sprint("k", i)
		if err := b.Add(t.Context(), key, []byte("1"), c.ttl); err != nil {
			t.Fatal(err)
		}
		if err := b.Renew(t.Context(), key, []byte("1"), c.ttl); err != nil {
			t.Errorf("renewal for %s: %v", c.ttl, err)
		}
		mu.Lock()
		if got := strings.Join(sent, ", "); got != "add "+c.want+", cas "+c.want {
			t.Errorf("%s was sent as %q, want %s seconds", c.ttl, got, c.want)
		}
		mu.Unlock()
	}
}
