package jobstest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

var modelRules = []rule{
	{"random calls are answered as by the model", func(c *check) {
		var sequences atomic.Int64
		rapid.Check(c.T, func(t *rapid.T) {
			m := newModel(c, t, fmt.Sprint("m", sequences.Add(1)))
			t.Repeat(map[string]func(*rapid.T){
				"look":   m.compare,
				"start":  m.start,
				"ask":    m.resend,
				"finish": m.finish,
				"skip":   m.skip,
				"note":   m.note,
				"die":    m.die,
				"adopt":  m.adopt,
			})
			m.tidy(t)
		})
	}},
}

// model is the expected state of the runs of one sequence. All sequences share a store, so the
// names of each sequence have a prefix of their own.
type model struct {
	c        *check
	prefix   string
	sessions []uuid.UUID // live
	replicas int         // sessions opened so far
	firings  int
	runs     []*modelRun
	token    jobs.Token // the largest one seen
}

type modelRun struct {
	storage.StartRequest
	state    jobs.State
	session  uuid.UUID // Nil if no session has it
	token    jobs.Token
	recorded bool // the run waits, and its requests are recorded
}

func newModel(c *check, t *rapid.T, prefix string) *model {
	m := &model{c: c, prefix: prefix}
	for range 2 {
		m.openSession(t)
	}
	return m
}

func (m *model) openSession(t *rapid.T) {
	m.replicas++
	id := uuid.New()
	session := storage.Session{ID: id, Replica: fmt.Sprint(m.prefix, "-", m.replicas),
		Version: "v1",
		TTL:     ttl}
	if err := m.c.Store.Open(m.c.ctx, session); err != nil {
		t.Fatal(err)
	}
	m.sessions = append(m.sessions, id)
}

// names are few and related, so most runs conflict.
func (m *model) drawRequests(t *rapid.T) []locking.Request {
	drawn := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "/a", "/b", "/a/x", "slot"}), 1,
		2, rapid.ID[string]).Draw(t, "names")
	requests := make([]locking.Request, len(drawn))
	for i, name := range drawn {
		switch mode := rapid.SampledFrom([]locking.Mode{locking.Exclusive, locking.Exclusive,
			locking.Shared}).Draw(t, "mode"); name {
		case "slot":
			requests[i] = slot(m.prefix, 2)
		default:
			requests[i] = ask(locking.KindPath, m.prefix+name, mode, 0)
		}
	}
	return requests
}

func (m *model) drawSession(t *rapid.T) uuid.UUID {
	return rapid.SampledFrom(m.sessions).Draw(t, "session")
}

// start starts a new firing of a drawn age.
func (m *model) start(t *rapid.T) {
	m.firings++
	f := firing(m.prefix, m.firings)
	r := &modelRun{session: m.drawSession(t), state: jobs.Waiting,
		StartRequest: storage.StartRequest{
			Run: uuid.New(), Firing: f, Attempt: 1, Requests: m.drawRequests(t),
			WaitSince: epoch.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "age")) * time.Second),
			Reserve:   time.Hour,
		}}
	m.runs = append(m.runs, r)
	m.ask(t, r, r.session)
}

// resend starts a known run, in any state, from any session.
func (m *model) resend(t *rapid.T) {
	m.ask(t, m.drawRun(t, func(*modelRun) bool { return true }), m.drawSession(t))
}

func (m *model) ask(t *rapid.T, r *modelRun, session uuid.UUID) {
	request := r.StartRequest
	request.New = rapid.Bool().Draw(t, "new")
	results, err := StartDecided(m.c.ctx, m.c.Store, session, []storage.StartRequest{request})
	if err != nil {
		t.Fatal(err)
	}
	got := results[0]
	switch {
	case r.state == jobs.Running && r.session == session:
		m.expect(t, r, got, storage.StartGranted)
		if got.Token != r.token {
			t.Fatalf("token %d, then %d", r.token, got.Token)
		}
	case r.state != jobs.Waiting || r.session != session:
		m.expect(t, r, got, storage.StartDuplicate)
	case len(m.blockers(r)) > 0:
		m.expect(t, r, got, storage.StartBlocked)
		m.expectBlocker(t, r, got)
		r.recorded = true
	default:
		m.expect(t, r, got, storage.StartGranted)
		if got.Token <= m.token {
			t.Fatalf("token %d after %d", got.Token, m.token)
		}
		r.state, r.token, r.recorded, m.token = jobs.Running, got.Token, false, got.Token
	}
}

func (m *model) expect(t *rapid.T, r *modelRun, got storage.StartResult,
	want storage.StartOutcome) {
	if got.Outcome != want {
		t.Fatalf("run %s (%s): outcome %d, reason %s, blocker %+v, want outcome %d", r.Run,
			r.state, got.Outcome, got.Reason, got.Blocker, want)
	}
}

func (m *model) expectBlocker(t *rapid.T, r *modelRun, got storage.StartResult) {
	blockers := m.blockers(r)
	held := slices.ContainsFunc(blockers,
		func(o *modelRun) bool { return o.state == jobs.Running })
	if want := map[bool]jobs.Reason{true: reasons.LockHeld,
		false: reasons.OlderWaiter}[held]; got.Reason != want {
		t.Fatalf("run %s is blocked with reason %s, want %s", r.Run, got.Reason, want)
	}
	if got.Blocker == nil || !slices.ContainsFunc(blockers, func(o *modelRun) bool {
		return o.Run.String() == got.Blocker.Holder.Run
	}) {
		t.Fatalf("run %s is blocked by %+v, which does not conflict", r.Run, got.Blocker)
	}
}

// blockers returns the runs that block r: conflicting running runs, conflicting older waiters that
// are recorded, and the users of its slots.
func (m *model) blockers(r *modelRun) []*modelRun {
	var found []*modelRun
	for _, mine := range r.Requests {
		var inSlots []*modelRun
		for _, o := range m.runs {
			if o == r || !m.counts(o, r) {
				continue
			}
			for _, theirs := range o.Requests {
				if locking.Conflict(mine, theirs) {
					found = append(found, o)
				} else if mine == theirs && mine.Mode == locking.Slotted {
					inSlots = append(inSlots, o)
				}
			}
		}
		if mine.Mode == locking.Slotted && len(inSlots) >= mine.Slots {
			found = append(found, inSlots...)
		}
	}
	return found
}

func (m *model) counts(o, r *modelRun) bool {
	if o.state == jobs.Running {
		return true
	}
	older := cmp.Or(o.WaitSince.Compare(r.WaitSince), bytes.Compare(o.Run[:], r.Run[:])) < 0
	return o.state == jobs.Waiting && o.recorded && o.session != uuid.Nil && older
}

func (m *model) drawRun(t *rapid.T, suits func(*modelRun) bool) *modelRun {
	var suitable []*modelRun
	for _, r := range m.runs {
		if suits(r) {
			suitable = append(suitable, r)
		}
	}
	if len(suitable) == 0 {
		t.Skip("no such run")
	}
	return rapid.SampledFrom(suitable).Draw(t, "run")
}

// finish ends a run that has a token, whose claim may be gone.
func (m *model) finish(t *rapid.T) {
	r := m.drawRun(t, func(r *modelRun) bool { return r.token != 0 })
	state := rapid.SampledFrom([]jobs.State{jobs.Succeeded, jobs.Failed}).Draw(t, "state")
	done, err := m.c.Store.Finish(m.c.ctx,
		[]storage.FinishRequest{{Run: r.Run, Token: r.token, State: state}})
	if err != nil {
		t.Fatal(err)
	}
	if want := r.state == jobs.Running || r.state == state; done[0] != want {
		t.Fatalf("finish of run %s (%s) as %s: %v, want %v", r.Run, r.state, state, done[0],
			want)
	}
	if r.state == jobs.Running {
		r.state = state
	}
}

// skip notes a run as skipped, in any state, from any session.
func (m *model) skip(t *rapid.T) {
	r, session := m.drawRun(t, func(*modelRun) bool { return true }), m.drawSession(t)
	n := noteOf(r.StartRequest, jobs.Skipped, reasons.LockHeld)
	n.New = rapid.Bool().Draw(t, "new") // wrong: the run was requested before
	recorded, err := m.c.Store.Note(m.c.ctx, session, []storage.Note{n})
	if err != nil {
		t.Fatal(err)
	}
	mine := r.session == session
	if want := mine && (r.state == jobs.Waiting || r.state == jobs.Skipped); recorded[0] != want {
		t.Fatalf("skip of run %s (%s): %v, want %v", r.Run, r.state, recorded[0], want)
	}
	if mine && r.state == jobs.Waiting {
		r.state = jobs.Skipped
	}
}

// note records that a run waits, for its requests or for nothing.
func (m *model) note(t *rapid.T) {
	r, session := m.drawRun(t, func(*modelRun) bool { return true }), m.drawSession(t)
	n, wants := noteOf(r.StartRequest, jobs.Waiting, reasons.NoWorker),
		rapid.Bool().Draw(t, "wants")
	if !wants {
		n.Requests = nil
	}
	recorded, err := m.c.Store.Note(m.c.ctx, session, []storage.Note{n})
	if err != nil {
		t.Fatal(err)
	}
	if want := r.session == session && r.state == jobs.Waiting; recorded[0] != want {
		t.Fatalf("note of run %s (%s): %v, want %v", r.Run, r.state, recorded[0], want)
	}
	if recorded[0] {
		r.recorded = wants
	}
}

// die expires a session, sweeps it, and opens another.
func (m *model) die(t *rapid.T) {
	dead := m.drawSession(t)
	m.c.Expire(dead)
	if _, err := m.c.Store.Heartbeat(m.c.ctx, dead, storage.ReplicaStatus{}); !errors.Is(err,
		storage.ErrSessionLost) {
		t.Fatalf("heartbeat of an expired session: %v", err)
	}
	swept, err := m.c.Store.Sweep(m.c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	lost := map[uuid.UUID]bool{}
	for _, r := range swept.Lost {
		lost[r.ID] = true
	}
	for _, r := range m.runs {
		running := r.session == dead && r.state == jobs.Running
		if lost[r.Run] != running {
			t.Fatalf("run %s (%s): lost %v, want %v", r.Run, r.state, lost[r.Run], running)
		}
		if running {
			r.state = jobs.Lost
		}
		if r.session == dead && r.state == jobs.Waiting {
			r.session = uuid.Nil
		}
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(id uuid.UUID) bool { return id == dead })
	m.openSession(t)
}

// adopt gives the oldest free run to a session, together with its waiting runs that are not in
// Adoption.Known.
func (m *model) adopt(t *rapid.T) {
	session := m.drawSession(t)
	var known []uuid.UUID
	unknown := map[uuid.UUID]bool{}
	for _, r := range m.runs {
		if r.state == jobs.Waiting && r.session == session {
			if rapid.Bool().Draw(t, "known") {
				known = append(known, r.Run)
			} else {
				unknown[r.Run] = true
			}
		}
	}
	heartbeat, err := m.c.Store.Heartbeat(m.c.ctx, session, storage.ReplicaStatus{})
	if err != nil {
		t.Fatal(err)
	}
	records, err := m.c.Store.Adopt(m.c.ctx, session, Adoption(known, 1, m.prefix))
	if err != nil {
		t.Fatal(err)
	}
	if len(records) > 0 && !heartbeat.Adoptable {
		t.Fatalf("the heartbeat reported no runs to adopt, and %d were adopted", len(records))
	}
	records = slices.DeleteFunc(records, func(r storage.Record) bool {
		returned := unknown[r.ID]
		delete(unknown, r.ID)
		return returned
	})
	if len(unknown) > 0 {
		t.Fatalf("runs %v of the session were not returned", unknown)
	}
	free := slices.DeleteFunc(slices.Clone(m.runs), func(r *modelRun) bool {
		return r.state != jobs.Waiting || r.session != uuid.Nil
	})
	if len(free) == 0 {
		if len(records) != 0 {
			t.Fatalf("adopted %+v, though none is free", records)
		}
		return
	}
	oldest := slices.MinFunc(free, func(a, b *modelRun) int {
		return a.WaitSince.Compare(b.WaitSince)
	})
	i := slices.IndexFunc(free, func(r *modelRun) bool {
		return len(records) == 1 && r.Run == records[0].ID
	})
	if i < 0 || !free[i].WaitSince.Equal(oldest.WaitSince) {
		t.Fatalf("adopted %+v, want the oldest, such as run %s", records, oldest.Run)
	}
	free[i].session, free[i].recorded = session, false
}

// compare compares the locks with the model.
func (m *model) compare(t *rapid.T) {
	locks, err := m.c.Store.Locks(m.c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]jobs.Token{}
	for _, l := range locks {
		if l.Holder.Job == m.prefix {
			held[l.Resource.Key()+" "+string(l.Mode)+" "+l.Holder.Run] = l.Token
		}
	}
	for _, r := range m.runs {
		for _, request := range r.Requests {
			key := request.Resource.Key() + " " + string(request.Mode) + " " + r.Run.String()
			if token, holds := held[key]; holds != (r.state == jobs.Running) ||
				holds && token != r.token {
				t.Fatalf("run %s (%s, token %d): %s is held %v, by token %d", r.Run, r.state,
					r.token, key, holds, token)
			}
			delete(held, key)
		}
	}
	if len(held) > 0 {
		t.Fatalf("locks of unknown holders: %v", held)
	}
}

// tidy compares every run's record, and ends all runs before the next sequence.
func (m *model) tidy(t *rapid.T) {
	m.compare(t)
	for _, r := range m.runs {
		record, err := m.c.Store.Run(m.c.ctx, r.Run)
		if err != nil || record.State != r.state || record.Token != r.token {
			t.Fatalf("run %s is recorded as %s with token %d (%v), want %s with token %d",
				r.Run, record.State, record.Token, err, r.state, r.token)
		}
	}
	for _, session := range m.sessions {
		m.c.Expire(session)
	}
	if _, err := m.c.Store.Sweep(m.c.ctx); err != nil {
		t.Fatal(err)
	}
}
