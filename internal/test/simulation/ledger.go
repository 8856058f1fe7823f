package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
)

// Work is the params of a simulated job's handler.
type Work struct {
	// the maximum duration; each attempt draws at least a fifth of it
	Takes jobs.Duration `json:"takes"`
	Fails float64       `json:"fails"` // the share of attempts that fail
	// the share of attempts that ignore the end of their context
	Stubborn float64 `json:"stubborn"`
	// the description of the definition of an added job
	Added  string `json:"added,omitempty"`
	Moment string `json:"moment,omitempty"` // the actor of the trigger, if the trigger has params
}

// Execution is one call of a handler.
type Execution struct {
	Run         uuid.UUID
	Job         string
	ScheduledAt time.Time
	Key         string
	Recovery    int
	Attempt     int
	Token       jobs.Token
	Replica     string
	Process     uint64 // number of the process; 0 if unknown
	Work        Work   // its params
	Stubborn    bool   // it ignores the end of its context
	// Definition is the job as the replica had it.
	Definition *jobs.Job
	// Begun is when the handler was called. Acted is when it last found its claim, so that its work
	// up to then took effect, or zero.
	Begun, Acted time.Time
	Ended        bool // the handler returned
	EndedAt      time.Time
	Err          error // the result
}

// Ledger is the list of the handlers' calls. It may be used concurrently.
type Ledger struct {
	// Seed decides how long attempts take and which fail.
	Seed uint64
	// Now is the clock of the entries.
	Now func() time.Time

	mu         sync.Mutex
	executions []*Execution
}

// errFailed is the error of handlers that are drawn to fail.
var errFailed = errors.New("it was drawn to fail")

// Handler returns the handler "work" of one process of a replica. Definition returns the job as
// that process has it. stands reports whether a claim exists, so that work under it takes effect.
func (l *Ledger) Handler(process uint64, definition func(w Work, job string) *jobs.Job,
	stands func(ctx context.Context, token jobs.Token) bool) jobs.Registration {
	return jobs.Handle("work", func(ctx context.Context, run *jobs.Run, w Work) error {
		e := l.begin(run, process, definition(w, run.Job), w)
		err := l.work(ctx, run, w, func(ctx context.Context) {
			if stands(ctx, run.Token) {
				l.action(e)
			}
		})
		now := l.Now()
		l.mu.Lock()
		defer l.mu.Unlock()
		e.Ended, e.EndedAt, e.Err = true, now, err
		return err
	})
}

func (l *Ledger) begin(run *jobs.Run, process uint64, definition *jobs.Job, w Work) *Execution {
	e := &Execution{
		Run: run.ID, Job: run.Job, ScheduledAt: run.ScheduledAt, Key: run.Key,
		Recovery: run.Recovery, Attempt: run.Attempt, Token: run.Token,
		Replica: run.Replica, Process: process, Work: w, Definition: definition, Begun: l.Now(),
	}
	_, _, e.Stubborn = l.fate(run, w)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.executions = append(l.executions, e)
	return e
}

// action records that the claim exists.
func (l *Ledger) action(e *Execution) {
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Acted = now
}

func (l *Ledger) work(ctx context.Context, run *jobs.Run, w Work,
	action func(context.Context)) error {
	takes, fails, stubborn := l.fate(run, w)
	heed := ctx
	if stubborn {
		heed = context.WithoutCancel(ctx)
	}
	action(heed)
	for range 2 {
		if sleep.For(heed, takes/2) != nil {
			return context.Cause(ctx)
		}
		action(heed)
	}
	if fails {
		return errFailed
	}
	return nil
}

// fate depends only on the attempt of the firing, not on the replica.
func (l *Ledger) fate(run *jobs.Run, w Work) (takes time.Duration, fails, stubborn bool) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %s %d %d", run.Job, run.ScheduledAt.UnixMicro(), run.Key, run.Recovery,
		run.Attempt)
	random, most := rand.New(rand.NewPCG(l.Seed, h.Sum64())), time.Duration(w.Takes)
	return most/5 + time.Duration(random.Float64()*float64(most)*4/5), random.Float64() < w.Fails,
		random.Float64() < w.Stubborn
}

// Executions returns all entries in the order of the calls.
func (l *Ledger) Executions() []Execution {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Execution, len(l.executions))
	for i, e := range l.executions {
		all[i] = *e
	}
	return all
}
