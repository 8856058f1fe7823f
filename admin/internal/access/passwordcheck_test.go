package access

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// TestQueueOfPasswordChecksIsShort checks that only a few sign-ins wait while all password checks
// are busy. Further ones are refused at once.
func TestQueueOfPasswordChecksIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuardWith(t, testPolicy(t), nil, zerolog.Nop())
		handler, checker := handlerOf(guard), guard.rules().passwordChecker
		for range maxChecks { // simulates checks that take long
			checker.turns.admitted <- struct{}{}
			checker.turns.active <- struct{}{}
		}
		const sent = 50
		replies := make(chan *httptest.ResponseRecorder, sent)
		for range sent {
			go func() { replies <- accesstest.SignIn(handler, "anna", "correct horse") }()
		}
		synctest.Wait()
		if got := len(replies); got != sent-maxWaitingChecks {
			t.Errorf("%d sign-ins are refused at once, want %d", got, sent-maxWaitingChecks)
		}
		start := time.Now()
		for range sent {
			reply := <-replies
			if reply.Code != http.StatusServiceUnavailable ||
				reply.Header().Get("Retry-After") == "" {
				t.Errorf("%d, Retry-After %q", reply.Code, reply.Header().Get("Retry-After"))
			}
		}
		if waited := time.Since(start); waited != signInTimeout {
			t.Errorf("the others waited %s, want %s", waited, signInTimeout)
		}
		for range maxChecks {
			<-checker.turns.active
			<-checker.turns.admitted
		}
		if reply := accesstest.SignIn(handler, "anna", "correct horse"); reply.Code != 303 {
			t.Errorf("afterwards: %d", reply.Code)
		}
	})
}
