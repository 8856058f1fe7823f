package engine

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
)

// active holds the runs that this replica tracks. Heartbeats and adoptions compare them with the
// store. It may be used concurrently.
type active struct {
	mu      sync.Mutex
	tracked map[uuid.UUID]bool // runs that a firing of this replica executes or waits for
	begun   map[uuid.UUID]bool // tracked since watch was called; nil when no watch is open
	running map[jobs.Token]activeRun
	closed  error         // if set, the cause that cancels every run that is added
	awaited bool          // add signals busy
	busy    chan struct{} // holds a value when a run was added after awaitBusy
}

// activeRun is the run of a claim, and the function that ends it.
type activeRun struct {
	run    uuid.UUID
	cancel context.CancelCauseFunc
	output *output.Tail // nil until perform has it
}

func newActive() *active {
	return &active{tracked: map[uuid.UUID]bool{}, running: map[jobs.Token]activeRun{},
		busy: make(chan struct{}, 1)}
}

// track marks a run as tracked until the returned function is called. A run is tracked from before
// the store may have a row of it until its firing has ended on this replica.
func (a *active) track(run uuid.UUID) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tracked[run] = true
	if a.begun != nil {
		a.begun[run] = true
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.tracked, run)
	}
}

// watch returns the tracked runs and a function that ends the watch. That function returns the runs
// that were tracked since. A caller that sends the first list to the store must ignore the runs of
// the second list in the answer, even if their firings have ended. Only one watch can be open.
func (a *active) watch() (runs []uuid.UUID, end func() (begun map[uuid.UUID]bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = map[uuid.UUID]bool{}
	return slices.Collect(maps.Keys(a.tracked)), func() map[uuid.UUID]bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		begun := a.begun
		a.begun = nil
		return begun
	}
}

// add registers a granted claim and the function that cancels its run. The returned function
// removes it.
func (a *active) add(token jobs.Token, run uuid.UUID,
	cancel context.CancelCauseFunc) (remove func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaited {
		a.awaited = false
		signal(a.busy)
	}
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

// awaitBusy reports whether there is no run. If so, busy is signaled when the next run is added.
func (a *active) awaitBusy() (idle bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.awaited = len(a.running) == 0
	return a.awaited
}

// writes sets the output of the run with the claim.
func (a *active) writes(token jobs.Token, output *output.Tail) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if running, ok := a.running[token]; ok {
		running.output = output
		a.running[token] = running
	}
}

// writing returns those of the runs that run on this replica and can have output.
func (a *active) writing(runs []uuid.UUID) map[jobs.Token]activeRun {
	a.mu.Lock()
	defer a.mu.Unlock()
	writing := make(map[jobs.Token]activeRun)
	for token, running := range a.running {
		if running.output != nil && slices.Contains(runs, running.run) {
			writing[token] = running
		}
	}
	return writing
}

// tokens returns the claims of this replica's runs.
func (a *active) tokens() []jobs.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	tokens := make([]jobs.Token, 0, len(a.running))
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

// trackedLen returns the number of tracked runs.
func (a *active) trackedLen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tracked)
}

// cancel ends the run with the claim, and reports whether it runs on this replica.
func (a *active) cancel(token jobs.Token, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	running, ok := a.running[token]
	if ok {
		running.cancel(cause)
	}
	return ok
}

// cancelRun ends the run, and reports whether it runs on this replica. A run that is starting, or
// that waits for its next attempt, must be cancelled again.
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

// cancelAll ends every run, and every run that is added later.
func (a *active) cancelAll(cause error) {
	a.mu.Lock()
	a.closed = cause
	a.mu.Unlock()
	for _, token := range a.tokens() {
		a.cancel(token, cause)
	}
}

// unknownClaims returns the claims that the store has and this replica does not know. They belong
// to starts whose reply was lost. A replica knows a claim if it runs or tracks its run, or if the
// claim is in known. The argument known has the claims from before the request to the store. Their
// runs may have ended meanwhile.
func (a *active) unknownClaims(claims map[jobs.Token]uuid.UUID, known []jobs.Token) []jobs.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	var unknown []jobs.Token
	for token, run := range claims {
		_, runs := a.running[token]
		if !runs && !a.tracked[run] && !slices.Contains(known, token) {
			unknown = append(unknown, token)
		}
	}
	return unknown
}
