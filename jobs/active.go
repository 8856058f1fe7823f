package jobs

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// active is what this replica is starting and running, as the heartbeat
// compares it with what the store says. It may be used concurrently.
type active struct {
	mu       sync.Mutex
	starting map[uuid.UUID]int // runs of which a start may be under way
	running  map[Token]context.CancelCauseFunc
	closed   error // once set, the cause with which whatever is added is cancelled
}

func newActive() *active {
	return &active{starting: map[uuid.UUID]int{}, running: map[Token]context.CancelCauseFunc{}}
}

// begin marks a run as being started, until the returned function is called.
func (a *active) begin(run uuid.UUID) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starting[run]++
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.starting[run]--; a.starting[run] == 0 {
			delete(a.starting, run)
		}
	})
}

// add registers a granted claim with what cancels its run; the returned
// function takes it out again.
func (a *active) add(token Token, cancel context.CancelCauseFunc) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[token] = cancel
	if a.closed != nil {
		cancel(a.closed)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.running, token)
	}
}

// tokens returns the claims that this replica knows of.
func (a *active) tokens() []Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	tokens := make([]Token, 0, len(a.running))
	for token := range a.running {
		tokens = append(tokens, token)
	}
	return tokens
}

func (a *active) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.running)
}

// cancel ends the run with the claim, if it runs here.
func (a *active) cancel(token Token, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	cancel, ok := a.running[token]
	if ok {
		cancel(cause)
	}
	return ok
}

// cancelAll ends every run, also those that are only being started.
func (a *active) cancelAll(cause error) {
	a.mu.Lock()
	a.closed = cause
	a.mu.Unlock()
	for _, token := range a.tokens() {
		a.cancel(token, cause)
	}
}

// strangers returns those of the store's claims that this replica neither
// runs nor is starting: starts whose reply was lost for good.
func (a *active) strangers(claims map[Token]uuid.UUID) []Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	var unknown []Token
	for token, run := range claims {
		if a.running[token] == nil && a.starting[run] == 0 {
			unknown = append(unknown, token)
		}
	}
	return unknown
}
