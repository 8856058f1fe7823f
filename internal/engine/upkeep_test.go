package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// sweeping is a store whose sweep finds one lost run.
type sweeping struct {
	storage.Store
	lost storage.LostRun
}

func (s *sweeping) Sweep(context.Context) (storage.Swept, error) {
	return storage.Swept{Sessions: []string{"dead"}, Lost: []storage.LostRun{s.lost}}, nil
}

// The sweep frees the resources of the claim, whatever this replica's cron table says about the
// job.
func TestSweepRemovesLocksOfJobsNotInTheTable(t *testing.T) {
	locker, err := locking.New(memory.New(),
		locking.Options{Namespace: "test", Lease: 30 * time.Second, Restore: true,
			Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := locking.Table("orders", "public")
	if err != nil {
		t.Fatal(err)
	}
	lost := storage.LostRun{Record: storage.Record{ID: uuid.New(), Job: "theirs"},
		Held: []locking.Request{{Resource: orders, Mode: locking.Exclusive}}}
	if _, err := locker.TryAcquire(t.Context(),
		locking.Owner{Replica: "dead", Job: lost.Job, Run: lost.ID.String()},
		lost.Held); err != nil {
		t.Fatal(err)
	}
	u := &sweeper{store: &sweeping{lost: lost}, locker: locker, events: &events{},
		log: zerolog.Nop()}
	u.sweep(t.Context())
	if held, err := locker.Inspect(t.Context(), []locking.Resource{orders}); err != nil ||
		len(held) != 0 {
		t.Errorf("held after the sweep: %+v, %v", held, err)
	}
}

func TestMisfireChecksStartWithTheOldestCursor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	u := &misfireChecker{table: tableOf(), intervals: defaultIntervals(), page: 50,
		controlState: &controlState{}}
	for name, behind := range map[string]time.Duration{
		"an hour": time.Hour, "a day": 24 * time.Hour, "two minutes": 2 * time.Minute, "three minutes": 3 * time.Minute, "nothing": time.Minute,
	} {
		e := entryEvery(t, time.Minute, jobs.MisfireSkip)
		e.Name = name
		e.activeVersion.register(1)
		e.activeVersion.decide(now.Add(-behind))
		u.table.put(e)
	}
	checks := u.undecided(now)
	var order []string
	for _, c := range checks {
		order = append(order, c.Job)
		if !c.ScheduledAt.Equal(c.decided.Add(time.Minute)) ||
			!c.Until.Equal(now.Add(-30*time.Second)) {
			t.Errorf("check %+v", c)
		}
	}
	if !slices.Equal(order, []string{"a day", "an hour", "three minutes", "two minutes"}) {
		t.Errorf("checks in the order %q", order)
	}
	for page, want := range map[int]int{1: 1, 39: 1, 40: 2, 41: 2, 42: 3, 43: 4, 1000: 4} {
		if u.page = page; u.fill(checks) != want {
			t.Errorf("a page of weight %d has %d checks, want %d", page, u.fill(checks), want)
		}
	}
}

// cursorStore is a store whose cursors another replica has moved.
type cursorStore struct {
	versions map[string]storage.ActiveDefinition
	err      error
	busy     bool // another replica is checking
	checked  int  // jobs
}

func (s *cursorStore) Versions(context.Context) (map[string]storage.ActiveDefinition, error) {
	return s.versions, s.err
}

func (s *cursorStore) CheckMisfires(_ context.Context, checks []storage.MisfireCheck,
	_ func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	if s.busy {
		return nil, nil
	}
	s.checked += len(checks)
	return map[string]time.Time{}, nil
}

// A check that another replica's check excludes says nothing about pauses.
func TestExcludedMisfireCheckKeepsWhatPausesHoldBack(t *testing.T) {
	e := entryEvery(t, time.Second, jobs.MisfireSkip)
	e.activeVersion.register(1)
	e.activeVersion.decide(time.Now().Add(-time.Hour))
	store := &cursorStore{busy: true}
	m := &misfireChecker{store: store, table: tableOf(e), clock: &clusterClock{},
		log: zerolog.Nop(), page: maxMisfirePage, intervals: defaultIntervals(),
		held: map[string]bool{e.Name: true}, controlState: &controlState{}}
	if m.check(t.Context()); !m.held[e.Name] {
		t.Error("the job counts as not held back")
	}
	store.busy = false
	if m.check(t.Context()); m.held[e.Name] || store.checked != 1 {
		t.Errorf("got %d checks, want one, after which no pause holds the job back", store.checked)
	}
}

// After a pause, the first replica with a turn decides on the scheduled times that the pause held
// back. The next one reads the cursor, so it does not lose its turn with an old one.
func TestMisfireChecksOfOthersAfterAPause(t *testing.T) {
	for name, test := range map[string]struct {
		pauses []storage.Pause
		want   int
	}{
		"paused":  {[]storage.Pause{{Target: storage.Target{Kind: storage.TargetAll}}}, 1},
		"resumed": {nil, 0},
	} {
		e := entryEvery(t, time.Second, jobs.MisfireSkip)
		e.activeVersion.register(1)
		e.activeVersion.decide(time.Now().Add(-time.Hour))
		store := &cursorStore{versions: map[string]storage.ActiveDefinition{
			e.Name: {Version: 1, CheckedUntil: time.Now()}}}
		m := &misfireChecker{store: store, table: tableOf(e), clock: &clusterClock{},
			log: zerolog.Nop(), page: maxMisfirePage, intervals: defaultIntervals(),
			held: map[string]bool{e.Name: true}, controlState: &controlState{}}
		m.controlState.pauses.Store(&test.pauses)
		if m.check(t.Context()); store.checked != test.want {
			t.Errorf("%s: got %d checks, want %d", name, store.checked, test.want)
		}
	}
}

// A replica that has not checked for a while learns what others have checked, and checks the rest.
func TestMisfireChecksOfOthersAreNotRepeated(t *testing.T) {
	const n = 60 // jobs with 20 scheduled times each: more than a page
	begin := time.Now().Add(-50 * time.Second)
	for name, test := range map[string]struct {
		version int64
		moved   int           // cursors
		behind  time.Duration // the moved cursors behind the newest decidable time
		err     error
		want    int
	}{
		"all":             {1, n, -time.Minute, nil, 0},
		"all, just now":   {1, n, 2 * time.Second, nil, 0},
		"all, before":     {1, n, 6 * time.Second, nil, n},
		"some":            {1, n - 10, -time.Minute, nil, 10},
		"none":            {1, 0, 0, nil, n},
		"another version": {2, n, -time.Minute, nil, n},
		"no answer":       {1, n, -time.Minute, storage.ErrUnavailable, n},
	} {
		store := &cursorStore{versions: map[string]storage.ActiveDefinition{}}
		m := &misfireChecker{store: store, table: tableOf(), clock: &clusterClock{},
			log: zerolog.Nop(), page: maxMisfirePage, intervals: defaultIntervals(),
			held: map[string]bool{}, controlState: &controlState{}}
		for i := range n {
			e := entryEvery(t, time.Second, jobs.MisfireSkip)
			e.Name = fmt.Sprintf("job-%02d", i)
			e.activeVersion.register(1)
			e.activeVersion.decide(begin)
			m.table.put(e)
			now := storage.ActiveDefinition{Version: test.version, CheckedUntil: begin}
			if i < test.moved {
				now.CheckedUntil = time.Now().Add(-e.MisfireThreshold - test.behind)
			}
			if test.err == nil {
				store.versions[e.Name] = now
			}
		}
		store.err = test.err
		m.held["job-00"] = true
		if m.check(t.Context()); store.checked != test.want {
			t.Errorf("%s: got checks of %d jobs, want %d", name, store.checked, test.want)
		}
		if m.held["job-00"] {
			t.Errorf("%s: a pause still holds the scheduled times of a job back", name)
		}
	}
}
