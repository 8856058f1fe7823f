package jobs

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/internal/output"
)

// active is what this replica cares for, as heartbeat and adoption compare it
// with what the store says. It may be used concurrently.
type active struct {
	mu      sync.Mutex
	cared   map[uuid.UUID]bool // runs that a firing here will see to their end
	begun   map[uuid.UUID]bool // since watch was called; nil while nobody watches
	running map[Token]activeRun
	closed  error // once set, the cause with which whatever is added is cancelled
}

// activeRun is a claim's run and what ends it.
type activeRun struct {
	run    uuid.UUID
	cancel context.CancelCauseFunc
	output *output.Tail // nil until its handler is called
}

func newActive() *active {
	return &active{cared: map[uuid.UUID]bool{}, running: map[Token]activeRun{}}
}

// care marks a run as this replica's to see to, until the returned function is
// called: from before the store may have a row of it until its firing has ended
// here, while it is queued, waits, starts and runs.
func (a *active) care(run uuid.UUID) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cared[run] = true
	if a.begun != nil {
		a.begun[run] = true
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.cared, run)
	}
}

// watch returns the runs that are cared for now, and what returns those that
// came to be from then on until it is called: who tells the store of the former
// and is told of others meanwhile must not take the latter for nobody's, even
// if their firings have ended since. One watches at a time.
func (a *active) watch() (runs []uuid.UUID, end func() (begun map[uuid.UUID]bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = map[uuid.UUID]bool{}
	return slices.Collect(maps.Keys(a.cared)), func() map[uuid.UUID]bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		begun := a.begun
		a.begun = nil
		return begun
	}
}

// add registers a granted claim with what cancels its run; the returned
// function takes it out again.
func (a *active) add(token Token, run uuid.UUID, cancel context.CancelCauseFunc) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[token] = activeRun{run: run, cancel: cancel}
	if a.closed != nil {
		cancel(a.closed)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.running, token)
	}
}

// writes tells where a run with a granted claim writes to.
func (a *active) writes(token Token, output *output.Tail) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if running, ok := a.running[token]; ok {
		running.output = output
		a.running[token] = running
	}
}

// tails returns what those of the runs write that run here.
func (a *active) tails(runs []uuid.UUID) map[Token]*output.Tail {
	a.mu.Lock()
	defer a.mu.Unlock()
	tails := make(map[Token]*output.Tail)
	for token, running := range a.running {
		if running.output != nil && slices.Contains(runs, running.run) {
			tails[token] = running.output
		}
	}
	return tails
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

// caredFor returns how many runs are cared for.
func (a *active) caredFor() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.cared)
}

// cancel ends the run with the claim, if it runs here.
func (a *active) cancel(token Token, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	running, ok := a.running[token]
	if ok {
		running.cancel(cause)
	}
	return ok
}

// cancelRun ends the run, if it runs here. One that is only being started, or
// rests between two attempts, is to be cancelled again.
func (a *active) cancelRun(run uuid.UUID, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := false
	for _, running := range a.running {
		if running.run == run {
			running.cancel(cause)
			found = true
		}
	}
	return found
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
// runs nor cares for: starts whose reply was lost for good.
func (a *active) strangers(claims map[Token]uuid.UUID) []Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	var unknown []Token
	for token, run := range claims {
		if _, runs := a.running[token]; !runs && !a.cared[run] {
			unknown = append(unknown, token)
		}
	}
	return unknown
}
