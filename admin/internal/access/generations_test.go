package access

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// signedOut has two replicas and cookies of two users.
type signedOut struct {
	policy     Policy
	shared     *accesstest.SignOuts
	here       http.Handler
	there      http.Handler
	anna, vera *http.Cookie
	logged     bytes.Buffer
}

func newSignedOut(t *testing.T) *signedOut {
	t.Helper()
	s := &signedOut{policy: testPolicy(t), shared: new(accesstest.SignOuts)}
	s.here = handlerOf(newSharedGuard(t, s.policy, Shared{SignOuts: s.shared},
		zerolog.New(&s.logged)))
	s.there = s.replica(t, s.shared)
	s.anna = accesstest.CookieOf(t, s.here, "anna", "correct horse")
	s.vera = accesstest.CookieOf(t, s.here, "vera", "staple")
	return s
}

// replica returns a further replica with the same users.
func (s *signedOut) replica(t *testing.T, shared storage.SignOuts) http.Handler {
	t.Helper()
	return handlerOf(newSharedGuard(t, s.policy, Shared{SignOuts: shared}, zerolog.Nop()))
}

func (s *signedOut) signOut(t *testing.T, cookie *http.Cookie) {
	t.Helper()
	if reply := accesstest.Ask(s.here, http.MethodPost, "/logout",
		accesstest.WithCookie(cookie)); reply.Header().Get("Location") != "/login" {
		t.Errorf("sign-out: %d", reply.Code)
	}
}

// expect checks whether the cookie is valid.
func expect(t *testing.T, what string, handler http.Handler, cookie *http.Cookie, valid bool) {
	t.Helper()
	got := accesstest.Ask(handler, http.MethodGet, "/", accesstest.WithCookie(cookie)).Code
	if (got == http.StatusOK) != valid {
		t.Errorf("%s: %d, want it valid: %t", what, got, valid)
	}
}

// TestSignOutEndsCopiedCookies sends a cookie again after its user has signed out.
func TestSignOutEndsCopiedCookies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		second := accesstest.CookieOf(t, s.there, "anna", "correct horse")
		expect(t, "before", s.there, s.anna, true)
		s.signOut(t, s.anna)
		expect(t, "here", s.here, s.anna, false)
		expect(t, "another browser", s.here, second, false)
		expect(t, "another user", s.here, s.vera, true)
		time.Sleep(generationsInterval)
		expect(t, "at another replica after a heartbeat", s.there, s.anna, false)
		expect(t, "another user there", s.there, s.vera, true)
		fresh := accesstest.CookieOf(t, s.here, "anna", "correct horse")
		expect(t, "a new sign-in", s.here, fresh, true)
		expect(t, "a new sign-in there", s.there, fresh, true)
	})
}

// TestSignInBeforeAReplicaReadsTheSignOut signs in at one replica directly after a sign-out
// at another.
func TestSignInBeforeAReplicaReadsTheSignOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		expect(t, "before", s.there, s.anna, true)
		s.signOut(t, s.anna)
		fresh := accesstest.CookieOf(t, s.there, "anna", "correct horse")
		for range 3 {
			expect(t, "a new sign-in", s.here, fresh, true)
			expect(t, "a new sign-in there", s.there, fresh, true)
			time.Sleep(generationsInterval)
		}
	})
}

// TestSignInAfterTheStoreForgotASignOut signs in at a new replica after the store has deleted a
// sign-out. The other replicas have read it before.
func TestSignInAfterTheStoreForgotASignOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		s.signOut(t, s.anna)
		time.Sleep(generationsInterval)
		expect(t, "the old sign-in there", s.there, s.anna, false)
		time.Sleep(signInLifetime + clockMargin)
		fresh := accesstest.CookieOf(t, s.replica(t, s.shared), "anna", "correct horse")
		expect(t, "here", s.here, fresh, true)
		expect(t, "there", s.there, fresh, true)
	})
}

func TestSignOutWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		s.shared.SetDown(true)
		s.signOut(t, s.anna)
		time.Sleep(generationsInterval)
		expect(t, "here", s.here, s.anna, false)
		expect(t, "another user", s.here, s.vera, true)
		expect(t, "there", s.there, s.anna, true)
		if got := strings.Count(s.logged.String(), "store is down"); got != 1 {
			t.Errorf("the trouble is logged %d times, want once", got)
		}
		s.shared.SetDown(false)
		time.Sleep(generationsInterval)
		expect(t, "another user", s.here, s.vera, true) // this replica reads the sign-out
		expect(t, "there, when the store answers", s.there, s.anna, false)
	})
}

// TestSignInAfterASignOutDuringAnOutage signs out and in again while the store is down. When it
// answers, the replica records the sign-out, which must not end the later sign-in.
func TestSignInAfterASignOutDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		s.shared.SetDown(true)
		s.signOut(t, s.anna)
		time.Sleep(time.Second)
		fresh := accesstest.CookieOf(t, s.here, "anna", "correct horse")
		s.shared.SetDown(false)
		for _, when := range []string{"when the store answers", "later"} {
			time.Sleep(generationsInterval)
			expect(t, when, s.here, fresh, true)
			expect(t, when+", there", s.there, fresh, true)
			expect(t, when+", the old sign-in there", s.there, s.anna, false)
		}
	})
}

// TestSignOutByASlowClock signs out at a replica whose clock is behind the clock of the replica of
// the last sign-out.
func TestSignOutByASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		ahead := time.Now().Add(time.Minute).UnixMicro()
		if err := s.shared.EndSignIns(t.Context(), "anna", ahead, signInLifetime); err != nil {
			t.Fatal(err)
		}
		fresh := accesstest.CookieOf(t, s.there, "anna", "correct horse")
		s.signOut(t, fresh) // here, which has not read the last sign-out
		expect(t, "here", s.here, fresh, false)
		time.Sleep(generationsInterval)
		expect(t, "there", s.there, fresh, false)
	})
}

// silentSignOuts is a store that does not answer until the request gives up.
type silentSignOuts struct {
	*accesstest.SignOuts
	silent atomic.Bool
}

func (s *silentSignOuts) Generations(ctx context.Context) (map[string]int64, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.SignOuts.Generations(ctx)
}

// TestRequestsDoNotWaitForASilentStore sends a request every 100 ms. Only the requests that read
// the store wait.
func TestRequestsDoNotWaitForASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silentSignOuts{SignOuts: new(accesstest.SignOuts)}
		handler := handlerOf(newSharedGuard(t, testPolicy(t), Shared{SignOuts: store},
			zerolog.Nop()))
		anna := accesstest.CookieOf(t, handler, "anna", "correct horse")
		store.silent.Store(true)
		var requests sync.WaitGroup
		var waited atomic.Int64
		const many = 200 // 20 s, in which the store is asked 4 times
		for range many {
			requests.Go(func() {
				began := time.Now()
				expect(t, "while the store is silent", handler, anna, true)
				if time.Since(began) > 0 {
					waited.Add(1)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		requests.Wait()
		if got := waited.Load(); got != 4 {
			t.Errorf("%d of %d requests waited for the store, want 4", got, many)
		}
	})
}

// TestRequestsWaitForALateReading sends requests together after a time without requests. All of
// them must know of a sign-out at another replica.
func TestRequestsWaitForALateReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		expect(t, "before", s.there, s.anna, true)
		s.signOut(t, s.anna)
		time.Sleep(time.Hour)
		var requests sync.WaitGroup
		before := s.shared.Queries()
		for range 10 {
			requests.Go(func() { expect(t, "an hour later", s.there, s.anna, false) })
		}
		requests.Wait()
		if got := s.shared.Queries() - before; got != 1 {
			t.Errorf("10 requests cost %d queries, want 1", got)
		}
	})
}

// slowSignOuts is a store whose answers take 500 ms.
type slowSignOuts struct{ *accesstest.SignOuts }

func (s slowSignOuts) Generations(ctx context.Context) (map[string]int64, error) {
	time.Sleep(500 * time.Millisecond)
	return s.SignOuts.Generations(ctx)
}

// TestRequestsWaitForARunningReading sends a request while another one reads the store after a time
// without requests. Both must know of a sign-out at another replica.
func TestRequestsWaitForARunningReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		slow := s.replica(t, slowSignOuts{s.shared})
		expect(t, "before", slow, s.anna, true)
		s.signOut(t, s.anna)
		time.Sleep(time.Hour)
		before := s.shared.Queries()
		var first sync.WaitGroup
		first.Go(func() { expect(t, "the first request", slow, s.anna, false) })
		time.Sleep(100 * time.Millisecond)
		expect(t, "the second request", slow, s.anna, false)
		first.Wait()
		if got := s.shared.Queries() - before; got != 1 {
			t.Errorf("2 requests cost %d queries, want 1", got)
		}
	})
}

// TestGenerationsAreReadFromMemory checks how many queries the requests of signed-in and other
// users cause.
func TestGenerationsAreReadFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignedOut(t)
		time.Sleep(generationsInterval)
		before := s.shared.Queries()
		forged := *s.anna
		forged.Value += "x"
		for range 100 {
			expect(t, "forged", s.here, &forged, false)
		}
		if got := s.shared.Queries() - before; got != 0 {
			t.Errorf("forged cookies cost %d queries", got)
		}
		for range 100 {
			expect(t, "valid", s.here, s.anna, true)
		}
		if got := s.shared.Queries() - before; got != 1 {
			t.Errorf("100 requests cost %d queries, want 1", got)
		}
	})
}

// TestSignOutWithoutStore signs out on a replica without a store for sign-outs.
func TestSignOutWithoutStore(t *testing.T) {
	handler := newHandler(t, testPolicy(t))
	anna := accesstest.CookieOf(t, handler, "anna", "correct horse")
	(&signedOut{here: handler}).signOut(t, anna)
	expect(t, "afterwards", handler, anna, false)
}
