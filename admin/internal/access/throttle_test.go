package access

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"slices"
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
		signIn := func(name, password, address string) int {
			return accesstest.SignIn(handler, name, password, accesstest.From(address)).Code
		}
		if got := tries(handler, maxUserFailures+1, "anna",
			"192.0.2.1:1"); got[403] != maxUserFailures || got[429] != 1 {
			t.Fatalf("tries of one user: %v", got)
		}
		right := accesstest.SignIn(handler, "anna", "correct horse",
			accesstest.From("198.51.100.9:1"))
		if right.Code != http.StatusTooManyRequests || right.Header().Get("Retry-After") != "10" ||
			!strings.Contains(right.Body.String(), "10 s") {
			t.Errorf("the throttled user from another address: %d, Retry-After %q", right.Code,
				right.Header().Get("Retry-After"))
		}
		if got := signIn("vera", "staple", "192.0.2.1:1"); got != http.StatusSeeOther {
			t.Errorf("another user from that address: %d", got)
		}
		if got := tries(handler, maxClientFailures, "nobody",
			"192.0.2.1:2"); got[403] != maxUserFailures {
			t.Errorf("tries of a name that is not there: %v, want it like any other's", got)
		}
		if got := signIn("vera", "staple", "192.0.2.1:3"); got != http.StatusTooManyRequests {
			t.Errorf("after %d failures of one address: %d", maxClientFailures, got)
		}
		if got := signIn("vera", "staple", "192.0.2.2:3"); got != http.StatusSeeOther {
			t.Errorf("from another address: %d", got)
		}
		time.Sleep(attemptsWindow)
		if got := signIn("anna", "wrong", "192.0.2.1:1"); got != http.StatusForbidden {
			t.Errorf("after %s: %d", attemptsWindow, got)
		}
		if got := signIn("anna", "correct horse", "192.0.2.1:1"); got != http.StatusSeeOther {
			t.Errorf("after %s: %d", attemptsWindow, got)
		}
	})
}

// TestThrottleSlowsAndDoesNotRefuse exceeds the limit of a user. After that, one attempt per
// slowInterval is allowed, whatever its result is.
func TestThrottleSlowsAndDoesNotRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := newHandler(t, testPolicy(t))
		tries(handler, maxUserFailures, "anna", "192.0.2.1:1")
		for range 5 {
			time.Sleep(slowInterval - time.Millisecond)
			if got := tries(handler, 3, "anna", "192.0.2.1:1"); got[429] != 3 {
				t.Errorf("before %s: %v", slowInterval, got)
			}
			time.Sleep(time.Millisecond)
			if got := tries(handler, 3, "anna", "192.0.2.1:1"); got[403] != 1 || got[429] != 2 {
				t.Errorf("after %s: %v", slowInterval, got)
			}
		}
		time.Sleep(slowInterval)
		for _, want := range []int{http.StatusSeeOther, http.StatusTooManyRequests} {
			if reply := accesstest.SignIn(handler, "anna", "correct horse",
				accesstest.From("198.51.100.9:1")); reply.Code != want {
				t.Errorf("the right password: %d, want %d", reply.Code, want)
			}
		}
	})
}

// TestSlowedGuessesDoNotPassTogether sends many concurrent guesses after the limit is reached.
func TestSlowedGuessesDoNotPassTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, testPolicy(t))
		tries(handlerOf(guard), maxUserFailures, "anna", "192.0.2.1:1")
		time.Sleep(slowInterval)
		guess := attempt{name: "anna", client: netip.MustParseAddr("192.0.2.2")}
		if err := guard.throttle.checkOwn(guess); err != nil {
			t.Fatal(err)
		}
		if first, second := guard.throttle.check(t.Context(), guess),
			guard.throttle.check(t.Context(), guess); first != nil || second == nil {
			t.Errorf("two guesses that waited together: %v, %v", first, second)
		}
	})
}

// TestKnownBrowserIsNotSlowed checks that guesses from elsewhere do not slow a user whose browser
// has signed in before.
func TestKnownBrowserIsNotSlowed(t *testing.T) {
	for name, keys := range map[string][][]byte{"derived": nil,
		"configured": {[]byte(strings.Repeat("k", 32))}} {
		t.Run(name, func(t *testing.T) {
			policy := testPolicy(t)
			policy.CookieKeys = keys
			shared := newAttemptCounts()
			one := handlerOf(newGuardWith(t, policy, shared, zerolog.Nop()))
			other := handlerOf(newGuardWith(t, policy, shared, zerolog.Nop()))
			anna := browserCookieOf(t, one, "anna", "correct horse")
			vera := browserCookieOf(t, one, "vera", "staple")
			signIn := func(handler http.Handler, name, password string, c *http.Cookie) int {
				return accesstest.SignIn(handler, name, password, accesstest.WithCookie(c),
					accesstest.From("192.0.2.1:1")).Code
			}
			for _, handler := range []http.Handler{one, other} {
				tries(handler, 2*maxClientFailures, "anna", "192.0.2.1:1")
				tries(handler, 2*maxClientFailures, "nobody", "192.0.2.1:1")
				if got := signIn(handler, "anna", "correct horse", anna); got != 303 {
					t.Errorf("a known browser: %d", got)
				}
			}
			forged := *anna
			forged.Value = "x" + forged.Value
			for what, c := range map[string]*http.Cookie{"a browser of another user": vera,
				"another id": &forged} {
				if got := signIn(one, "anna", "correct horse", c); got != 429 {
					t.Errorf("%s: got %d, want 429", what, got)
				}
			}
			for range maxUserFailures {
				if got := signIn(one, "anna", "wrong", anna); got != 403 {
					t.Fatalf("a wrong password in a known browser: %d", got)
				}
			}
			for _, handler := range []http.Handler{one, other} {
				if got := signIn(handler, "anna", "correct horse", anna); got != 429 {
					t.Errorf("after %d wrong passwords in it: %d", maxUserFailures, got)
				}
			}
		})
	}
}

// browserCookieOf signs in and returns the cookie that identifies a known browser.
func browserCookieOf(t *testing.T, handler http.Handler, name, password string) *http.Cookie {
	t.Helper()
	for _, cookie := range accesstest.SignIn(handler, name, password).Result().Cookies() {
		if cookie.Name == secureCookie+browserSuffix {
			return cookie
		}
	}
	t.Fatal("no cookie of a known browser")
	return nil
}

func TestBrowserCookie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := testPolicy(t)
		handler := newHandler(t, policy)
		cookie := browserCookieOf(t, handler, "anna", "correct horse")
		if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode ||
			cookie.MaxAge != int(browserLifetime.Seconds()) {
			t.Errorf("cookie is %s", cookie)
		}
		if reply := accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithCookie(
			&http.Cookie{Name: secureCookie, Value: cookie.Value[strings.Index(cookie.Value,
				".")+1:]})); reply.Code != http.StatusSeeOther {
			t.Errorf("it is accepted as a sign-in: %d", reply.Code)
		}
		renewed := func() string {
			reply := accesstest.SignIn(handler, "anna", "correct horse",
				accesstest.WithCookie(cookie))
			return reply.Result().Cookies()[1].Value
		}
		id, _, _ := strings.Cut(cookie.Value, ".")
		time.Sleep(browserLifetime - time.Second)
		if got := renewed(); got == cookie.Value || !strings.HasPrefix(got, id+".") {
			t.Errorf("before its end it is renewed as %s, it was %s", got, cookie.Value)
		}
		time.Sleep(time.Second)
		if got := renewed(); strings.HasPrefix(got, id+".") {
			t.Errorf("at its end it is renewed as %s", got)
		}
	})
}

func TestSlowedSignIns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &countingLoginAttempts{attemptCounts: newAttemptCounts()}
		one := newGuardWith(t, testPolicy(t), shared, zerolog.Nop())
		other := newGuardWith(t, testPolicy(t), shared, zerolog.Nop())
		operator := Identity{Name: "olga", Role: Operator, By: ByProxy}
		tries(handlerOf(one), maxUserFailures-1, "anna", "192.0.2.1:1")
		if got := other.SlowedSignIns(t.Context(), operator); len(got) > 0 {
			t.Errorf("below the limit: %v", got)
		}
		time.Sleep(sharedInterval)
		tries(handlerOf(one), 1, "anna", "192.0.2.1:1")
		want := []SlowedSignIns{{"anna", maxUserFailures, sharedInterval}}
		for _, guard := range []*Guard{one, other} {
			for sender, want := range map[Identity][]SlowedSignIns{
				operator: want,
				{Name: "anna", Role: Viewer, By: ByPassword}: want,
				{Name: "vera", Role: Viewer, By: ByPassword}: nil,
				{Name: "anna", Role: Viewer, By: ByToken}:    nil,
			} {
				if got := guard.SlowedSignIns(t.Context(), sender); !slices.Equal(got, want) {
					t.Errorf("%v sees %v, want %v", sender, got, want)
				}
			}
		}
		before := shared.queries
		for range 100 {
			other.SlowedSignIns(t.Context(), operator)
		}
		if shared.queries != before {
			t.Errorf("got %d queries to the store within %s", shared.queries-before,
				sharedInterval)
		}
	})
}

// TestThrottleCountsOverReplicas checks that two replicas count failures in a shared store.
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
	handler := handlerOf(newGuardWith(t, testPolicy(t), accesstest.BrokenLoginAttempts{},
		zerolog.New(&logged)))
	if got := tries(handler, maxUserFailures+1, "anna",
		"192.0.2.1:1"); got[403] != maxUserFailures || got[429] != 1 {
		t.Errorf("tries while the store is down: %v", got)
	}
	if reply := accesstest.SignIn(handler, "vera", "staple"); reply.Code != http.StatusSeeOther {
		t.Errorf("sign-in while the store is unavailable: got %d", reply.Code)
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
		return attempt{name: "anna", client: netip.MustParseAddr(address)}.keys()[1]
	}
	if key("2001:db8:1:2::3") != key("2001:db8:1:2:ffff::4") ||
		key("2001:db8:1:2::3") == key("2001:db8:1:3::3") {
		t.Errorf("got the keys %q, %q and %q of IPv6 clients, want one for each /64",
			key("2001:db8:1:2::3"), key("2001:db8:1:2:ffff::4"), key("2001:db8:1:3::3"))
	}
	if key("192.0.2.1") == key("192.0.2.2") {
		t.Errorf("got the key %q for two IPv4 clients, want two keys", key("192.0.2.1"))
	}
	if strings.Contains(strings.Join(attempt{name: "anna"}.keys(), " "), "anna") {
		t.Errorf("got the keys %q, want none with the name", attempt{name: "anna"}.keys())
	}
}

// countingLoginAttempts counts queries.
type countingLoginAttempts struct {
	*attemptCounts
	queries int
}

func (c *countingLoginAttempts) CountFailures(ctx context.Context,
	keys ...string) ([]storage.Failures, error) {
	c.queries++
	return c.attemptCounts.CountFailures(ctx, keys...)
}

func TestThrottledSignInsDoNotAskTheStore(t *testing.T) {
	shared := &countingLoginAttempts{attemptCounts: newAttemptCounts()}
	one := handlerOf(newGuardWith(t, testPolicy(t), shared, zerolog.Nop()))
	other := handlerOf(newGuardWith(t, testPolicy(t), shared, zerolog.Nop()))
	for _, name := range []string{"anna", "vera"} { // fail until the address reaches its limit
		tries(one, maxUserFailures, name, "192.0.2.1:1")
	}
	for what, handler := range map[string]http.Handler{"the same": one, "the other": other} {
		before := shared.queries
		if got := tries(handler, 100, "nobody", "192.0.2.1:1"); got[429] != 100 {
			t.Errorf("%s replica: %v", what, got)
		}
		if asked := shared.queries - before; asked > 1 {
			t.Errorf("%s replica: got %d queries to the store, want at most 1", what, asked)
		}
	}
}

func TestRefusalsFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		handler := handlerOf(newGuardWith(t, testPolicy(t), nil, zerolog.New(&logged)))
		tries(handler, 500, "anna", "192.0.2.1:1")
		for range 500 {
			accesstest.Ask(handler, http.MethodGet, "/",
				accesstest.WithHeader("Authorization", "Bearer x"))
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
		if got := ask("one more", "192.0.2.1:1"); got != 429 {
			t.Errorf("after %d guesses: %d", maxClientTokens, got)
		}
		if got := ask(accesstest.DeployToken, "192.0.2.1:1"); got != 200 {
			t.Errorf("a right token from there: %d", got)
		}
		if got := ask("one more", "192.0.2.2:1"); got != 401 {
			t.Errorf("another address: %d", got)
		}
		time.Sleep(attemptsWindow)
		if got := ask("one more", "192.0.2.1:1"); got != 401 {
			t.Errorf("after %s: %d", attemptsWindow, got)
		}
	})
}
