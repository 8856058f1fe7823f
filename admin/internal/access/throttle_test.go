package access

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// tries signs in n times with a wrong password, and returns the statuses.
func tries(handler http.Handler, n int, name, address string) (statuses map[int]int) {
	statuses = make(map[int]int)
	for range n {
		statuses[accesstest.SignIn(handler, name, "wrong", accesstest.From(address)).Code]++
	}
	return statuses
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := newHandler(t, testPolicy(t))
		if got := tries(handler, maxUserFailures+1, "anna",
			"192.0.2.1:1"); got[403] != maxUserFailures || got[429] != 1 {
			t.Fatalf("tries of one user: %v", got)
		}
		right := accesstest.SignIn(handler, "anna", "correct horse", accesstest.From("198.51.100.9:1"))
		if right.Code != http.StatusTooManyRequests || right.Header().Get("Retry-After") != "900" ||
			!strings.Contains(right.Body.String(), "15 min") {
			t.Errorf("the throttled user from another address: %d, Retry-After %q", right.Code,
				right.Header().Get("Retry-After"))
		}
		if reply := accesstest.SignIn(handler, "vera", "staple", accesstest.From("192.0.2.1:1")); reply.Code != http.StatusSeeOther {
			t.Errorf("another user from that address: %d", reply.Code)
		}
		if got := tries(handler, maxClientFailures, "nobody",
			"192.0.2.1:2"); got[403] != maxUserFailures {
			t.Errorf("tries of a name that is not there: %v, want it like any other's", got)
		}
		if reply := accesstest.SignIn(handler, "vera", "staple", accesstest.From("192.0.2.1:3")); reply.Code != http.StatusTooManyRequests {
			t.Errorf("after %d failures of one address: %d", maxClientFailures, reply.Code)
		}
		if reply := accesstest.SignIn(handler, "vera", "staple", accesstest.From("192.0.2.2:3")); reply.Code != http.StatusSeeOther {
			t.Errorf("from another address: %d", reply.Code)
		}
		time.Sleep(attemptsWindow)
		if reply := accesstest.SignIn(handler, "anna", "correct horse",
			accesstest.From("192.0.2.1:1")); reply.Code != http.StatusSeeOther {
			t.Errorf("after %s: %d", attemptsWindow, reply.Code)
		}
	})
}

// TestThrottleCountsOverReplicas counts in a store that two replicas share.
func TestThrottleCountsOverReplicas(t *testing.T) {
	shared := newAttemptCounts()
	replica := func() http.Handler {
		return handlerOf(newGuardWith(t, testPolicy(t), shared, zerolog.Nop()))
	}
	one, other := replica(), replica()
	if got := tries(one, maxUserFailures, "anna", "192.0.2.1:1"); got[403] != maxUserFailures {
		t.Fatalf("tries: %v", got)
	}
	if reply := accesstest.SignIn(other, "anna", "correct horse",
		accesstest.From("192.0.2.2:1")); reply.Code != http.StatusTooManyRequests {
		t.Errorf("the other replica answers %d", reply.Code)
	}
}

func TestThrottleWithoutStore(t *testing.T) {
	var logged bytes.Buffer
	handler := handlerOf(newGuardWith(t, testPolicy(t), accesstest.BrokenAttempts{},
		zerolog.New(&logged)))
	if got := tries(handler, maxUserFailures+1, "anna",
		"192.0.2.1:1"); got[403] != maxUserFailures || got[429] != 1 {
		t.Errorf("tries while the store is down: %v", got)
	}
	if reply := accesstest.SignIn(handler, "vera", "staple"); reply.Code != http.StatusSeeOther {
		t.Errorf("while the store is down nobody can sign in: %d", reply.Code)
	}
	if got := strings.Count(logged.String(), "store is down"); got != 1 {
		t.Errorf("the store's trouble is logged %d times, want once", got)
	}
}

func TestTalliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := newAttemptCounts()
		add := func(key string) {
			t.Helper()
			if err := counts.AddFailure(t.Context(), time.Minute, key); err != nil {
				t.Fatal(err)
			}
		}
		add("first")
		time.Sleep(time.Second)
		for i := range maxAttemptCounts + 10 {
			add(time.Duration(i).String())
		}
		if got := len(counts.byKey); got != maxAttemptCounts {
			t.Errorf("%d keys are kept, want %d", got, maxAttemptCounts)
		}
		if found, err := counts.CountFailures(t.Context(), "first"); err != nil ||
			found[0].Count != 0 {
			t.Errorf("the first is still there: %v, %v", found, err)
		}
		time.Sleep(time.Minute)
		add("last")
		if got := len(counts.byKey); got != 1 {
			t.Errorf("%d keys are kept after their time", got)
		}
	})
}

func TestAttemptKeys(t *testing.T) {
	key := func(address string) string {
		return attemptKeys("anna", netip.MustParseAddr(address))[1]
	}
	if key("2001:db8:1:2::3") != key("2001:db8:1:2:ffff::4") ||
		key("2001:db8:1:2::3") == key("2001:db8:1:3::3") {
		t.Error("an IPv6 client is not its network of 64 bits")
	}
	if key("192.0.2.1") == key("192.0.2.2") {
		t.Error("two IPv4 clients are one")
	}
	if strings.Contains(strings.Join(attemptKeys("anna", netip.Addr{}), " "), "anna") {
		t.Error("a key holds what was typed")
	}
}

// countingAttempts counts the queries.
type countingAttempts struct {
	*attemptCounts
	queries int
}

func (c *countingAttempts) CountFailures(ctx context.Context,
	keys ...string) ([]storage.Failures, error) {
	c.queries++
	return c.attemptCounts.CountFailures(ctx, keys...)
}

func TestThrottledSignInsDoNotAskTheStore(t *testing.T) {
	shared := &countingAttempts{attemptCounts: newAttemptCounts()}
	one := handlerOf(newGuardWith(t, testPolicy(t), shared, zerolog.Nop()))
	other := handlerOf(newGuardWith(t, testPolicy(t), shared, zerolog.Nop()))
	for _, name := range []string{"anna", "vera"} { // reaches the limit of the address
		tries(one, maxUserFailures, name, "192.0.2.1:1")
	}
	for what, handler := range map[string]http.Handler{"the same": one, "the other": other} {
		before := shared.queries
		if got := tries(handler, 100, "nobody", "192.0.2.1:1"); got[429] != 100 {
			t.Errorf("%s replica: %v", what, got)
		}
		if asked := shared.queries - before; asked > 1 {
			t.Errorf("%s replica asks the store %d times, want once at most", what, asked)
		}
	}
}

func TestRefusalsFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		handler := handlerOf(newGuardWith(t, testPolicy(t), nil, zerolog.New(&logged)))
		tries(handler, 500, "anna", "192.0.2.1:1")
		for range 500 {
			accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithHeader("Authorization", "Bearer x"))
		}
		if got := strings.Count(logged.String(), "\n"); got != refusalsPerMinute {
			t.Errorf("%d lines, want %d", got, refusalsPerMinute)
		}
		time.Sleep(time.Minute)
		tries(handler, 1, "anna", "192.0.2.1:1")
		if want := `"left_out":940`; !strings.Contains(logged.String(), want) {
			t.Errorf("no line has %s", want)
		}
	})
}

func TestWrongTokensAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := newHandler(t, testPolicy(t))
		ask := func(token, address string) int {
			return accesstest.Ask(handler, http.MethodGet, "/", accesstest.From(address),
				accesstest.WithHeader("Authorization", "Bearer "+token)).Code
		}
		for range 10 * maxClientTokens {
			if got := ask("an old one", "192.0.2.1:1"); got != 401 {
				t.Fatalf("the same wrong token again: %d", got)
			}
		}
		for i := range maxClientTokens - 1 {
			if got := ask(strconv.Itoa(i), "192.0.2.1:1"); got != 401 {
				t.Fatalf("guess %d: %d", i, got)
			}
		}
		for _, token := range []string{"one more", accesstest.DeployToken} {
			if got := ask(token, "192.0.2.1:1"); got != 429 {
				t.Errorf("after %d guesses: %d", maxClientTokens, got)
			}
		}
		if got := ask(accesstest.DeployToken, "192.0.2.2:1"); got != 200 {
			t.Errorf("another address: %d", got)
		}
		time.Sleep(attemptsWindow)
		if got := ask(accesstest.DeployToken, "192.0.2.1:1"); got != 200 {
			t.Errorf("after %s: %d", attemptsWindow, got)
		}
	})
}
