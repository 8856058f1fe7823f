package simstore

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// run is one run.
type run struct {
	rules.Run
	wants   []locking.Request // resources for which others wait behind it
	claim   *claim            // nil without a claim
	output  string
	watched time.Time // its page is open until then
	result  json.RawMessage
	// ended attempts that another one follows, the oldest first
	attempts []storage.RunAttempt
}

// claim is a run's right to commit, with its grants.
type claim struct {
	token   jobs.Token
	run     *run
	session *session
	granted time.Time
	held    []locking.Request
}

// holds reports whether the claim has a grant of the resource.
func (c *claim) holds(resource locking.Resource) bool {
	return slices.ContainsFunc(c.held, func(r locking.Request) bool {
		return r.Resource == resource
	})
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
		unique.scheduledAt = rules.Whole(f.ScheduledAt)
	}
	return unique
}

// unique identifies the firing of the run.
func (r *run) unique() firing {
	f := firingOf(storage.Firing{Job: r.Job, ScheduledAt: r.ScheduledAt, Key: r.Key,
		Recovery: r.Recovery})
	f.keyActor = r.KeyActor
	return f
}

// add adds the first run of a firing.
func (s *Store) add(added rules.Run) *run {
	r := &run{Run: added}
	s.countEnded(r)
	s.runs[r.ID] = r
	s.firings[r.unique()] = r
	if r.State == jobs.Waiting {
		s.waiting[r.ID] = r
	}
	if r.Key != "" || r.Recovery != 0 {
		return r
	}
	j := s.jobs[r.Job]
	if j == nil {
		j = &job{}
		s.jobs[r.Job] = j
	}
	index, _ := slices.BinarySearchFunc(j.scheduledTimes, r.ScheduledAt, time.Time.Compare)
	j.scheduledTimes = slices.Insert(j.scheduledTimes, index, r.ScheduledAt)
	return r
}

// update changes the run and what follows from that: the history of waits, the waiting runs and
// the key.
func (s *Store) update(r *run, next rules.Run, now time.Time) {
	s.recordWaits(r.Run, next, now)
	ended := r.State.Final()
	if r.Run = next; !ended {
		s.countEnded(r)
	}
	if r.State == jobs.Waiting {
		s.waiting[r.ID] = r
		return
	}
	r.wants = nil
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

// Everything returns all runs ever added, in no order and without output.
func (s *Store) Everything() []storage.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := make([]storage.Record, 0, len(s.runs))
	for _, r := range s.runs {
		records = append(records, r.Record)
	}
	return records
}

// Stands reports whether the claim exists, as a fenced transaction checks before it commits.
func (s *Store) Stands(token jobs.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down && s.claims[token] != nil
}
