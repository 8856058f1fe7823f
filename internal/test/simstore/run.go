package simstore

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// run is one run, with the facts that its record lacks.
type run struct {
	storage.Record
	session uuid.UUID         // the current or last session; Nil for none
	loose   bool              // it was held back, and any session can adopt it
	wants   []locking.Request // resources for which others wait behind it
	claim   *claim            // nil without a claim
	output  string
	watched time.Time // its page is open until then
	result  json.RawMessage

	keyActor string // who chose the key

	blockedAt time.Time // since when it waits for its blocker, if any

	reservedUntil time.Time // of a waiting run; zero if it never had a reservation
	inTurn        bool      // it waits for its position in its group
}

// claim is a run's right to commit, with its grants.
type claim struct {
	token   jobs.Token
	run     *run
	session *session
	granted time.Time
	held    []locking.Request
}

// firing identifies the runs of a firing: by a scheduled time, or by a key.
type firing struct {
	job         string
	scheduledAt time.Time // zero where there is a key
	key         string
	keyActor    string
	recovery    int
}

func firingOf(f storage.Firing) firing {
	unique := firing{job: f.Job, key: f.Key, recovery: f.Recovery}
	if f.Key == "" {
		unique.scheduledAt = whole(f.ScheduledAt)
	}
	return unique
}

// unique identifies the firing of the run.
func (r *run) unique() firing {
	f := firingOf(storage.Firing{Job: r.Job, ScheduledAt: r.ScheduledAt, Key: r.Key,
		Recovery: r.Recovery})
	f.keyActor = r.keyActor
	return f
}

// whole returns a time with the precision of a real store.
func whole(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond).Round(0) }

// newRun returns a waiting run of the firing without a session.
func newRun(id uuid.UUID, f storage.Firing, now time.Time) *run {
	return &run{Record: storage.Record{
		ID: id, Job: f.Job, ScheduledAt: whole(f.ScheduledAt), Key: f.Key, Recovery: f.Recovery,
		State: jobs.Waiting, CreatedAt: now,
	}}
}

// add adds the first run of a firing.
func (s *Store) add(r *run) {
	s.runs[r.ID] = r
	s.firings[r.unique()] = r
	if r.State == jobs.Waiting {
		s.waiting[r.ID] = r
	}
	if r.Key != "" || r.Recovery != 0 {
		return
	}
	j := s.jobs[r.Job]
	if j == nil {
		j = &job{}
		s.jobs[r.Job] = j
	}
	place, _ := slices.BinarySearchFunc(j.scheduledTimes, r.ScheduledAt, time.Time.Compare)
	j.scheduledTimes = slices.Insert(j.scheduledTimes, place, r.ScheduledAt)
}

// settled sets the next state of a waiting run.
func (s *Store) settled(r *run, state jobs.State) {
	r.State, r.WaitSince, r.wants, r.reservedUntil, r.inTurn = state, time.Time{}, nil, time.Time{},
		false
	delete(s.waiting, r.ID)
	s.freeKey(r)
}

// freeKey frees the key of a skipped run that was triggered.
func (s *Store) freeKey(r *run) {
	f := r.unique()
	if r.Key != "" && r.State == jobs.Skipped && s.firings[f] == r {
		delete(s.firings, f)
	}
}

// give deletes the run's claim with its grants.
func (s *Store) give(c *claim) {
	delete(s.claims, c.token)
	delete(c.session.claims, c.token)
	c.run.claim = nil
}

// record returns a copy, because the run continues to change.
func (r *run) record() storage.Record {
	record := r.Record
	if r.BlockedBy != nil {
		blocker := *r.BlockedBy
		record.BlockedBy = &blocker
	}
	if r.Waited != nil {
		waited := *r.Waited
		record.Waited = &waited
	}
	return record
}

// Everything returns all runs ever added, in no order and without output.
func (s *Store) Everything() []storage.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]storage.Record, 0, len(s.runs))
	for _, r := range s.runs {
		records = append(records, r.record())
	}
	return records
}

// Stands reports whether the claim exists, as a fenced transaction checks before it commits.
func (s *Store) Stands(token jobs.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down && s.claims[token] != nil
}
