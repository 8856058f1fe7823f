package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// A page of checks is one transaction. Most checks visit few scheduled times, and many fit into
	// a page. After a long outage 50 jobs fit, with 100 records each.
	maxMisfirePage   = storage.MaxBatch
	maxMisfireWeight = maxMisfirePage / 50
)

// misfireChecker looks for scheduled times that no replica started, and applies the misfire
// policies to them. It belongs to one goroutine.
type misfireChecker struct {
	store  misfireStore
	table  *cronTable
	clock  *clusterClock
	events *events
	log    zerolog.Logger
	// the weight of checks that the store can execute in one call, as measured
	page      int
	intervals *pollIntervals
	// jobs whose scheduled times a pause held back at the last check
	held         map[string]bool
	controlState *controlState
}

// misfireStore records misfires.
type misfireStore interface {
	Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error)
	CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
		find func(job string, c storage.Cursor) []storage.Misfired) (map[string]time.Time, error)
}

// check records misfires of the jobs that this replica fires, page by page, for at most
// batchTimeout. The next call does the rest. If other replicas may have moved the cursors, it first
// reads them.
func (m *misfireChecker) check(ctx context.Context) {
	checks := m.undecided(m.clock.now())
	if m.mayHaveMoved(checks) && m.readCursors(ctx, checks) {
		checks = m.undecided(m.clock.now())
	}
	for start := time.Now(); len(checks) > 0 && time.Since(start) < batchTimeout; {
		n := m.fill(checks)
		if !m.checkPage(ctx, checks[:n]) {
			return
		}
		checks = checks[n:]
	}
}

// mayHaveMoved reports whether to read the cursors before the checks: other replicas would have
// checked one of the jobs in an earlier interval, or there is more than a page. The store drops a
// check if the job's cursor has passed its first scheduled time. So with old cursors, this replica
// would learn the new ones, but check nothing.
func (m *misfireChecker) mayHaveMoved(checks []weighedCheck) bool {
	isOld := func(c weighedCheck) bool {
		return !c.held && c.Until.Sub(c.ScheduledAt) > m.intervals.misfires
	}
	return len(checks) > 0 && (m.fill(checks) < len(checks) || slices.ContainsFunc(checks, isOld))
}

// readCursors reads the cursors of the jobs in the store, and reports whether one has moved.
func (m *misfireChecker) readCursors(ctx context.Context, checks []weighedCheck) (moved bool) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	versions, err := m.store.Versions(bounded)
	if err != nil && ctx.Err() == nil {
		m.log.Debug().Err(err).Msg("read misfire cursors failed")
	}
	for _, c := range checks {
		now, known := versions[c.Job]
		if !known || now.Version != c.Version || !now.CheckedUntil.After(c.decided) {
			continue
		}
		c.entry.activeVersion.decide(now.CheckedUntil)
		moved = true
		if !now.CheckedUntil.Before(c.ScheduledAt) {
			delete(m.held, c.Job)
		}
	}
	return moved
}

// undecided returns checks of the jobs with scheduled times that are too old to start and that may
// have no record. It leaves out jobs whose known cursor has just moved (minLag). The jobs that are
// furthest behind come first. Jobs whose scheduled times a pause holds back come last.
func (m *misfireChecker) undecided(now time.Time) []weighedCheck {
	var checks []weighedCheck
	var span spanCount
	for _, e := range m.table.all() {
		decided := e.activeVersion.decidedUntil()
		if e.activeVersion.stale() || now.Add(-e.MisfireThreshold).Sub(decided) < m.minLag() {
			continue
		}
		until := e.decidable(decided, now)
		first, weight := span.of(e.Schedule, decided, until)
		if weight == 0 {
			continue
		}
		check := weighedCheck{
			MisfireCheck: storage.MisfireCheck{Job: e.Name, Group: e.Group,
				Version: e.activeVersion.own(), ScheduledAt: first, Until: until,
				CallerTime: now}, entry: e, decided: decided, weight: weight,
		}
		if m.held[e.Name] {
			if _, check.held = m.controlState.paused(e.Name, e.Group); check.held {
				check.weight = 1
			}
		}
		checks = append(checks, check)
	}
	slices.SortFunc(checks, func(a, b weighedCheck) int {
		return cmp.Or(yesLast(a.held, b.held), a.decided.Compare(b.decided),
			strings.Compare(a.Job, b.Job))
	})
	return checks
}

// minLag returns how far the cursor of a job must be behind the newest scheduled times that can be
// checked. A check of a job costs the store the same for two scheduled times as for five. So of the
// three turns of an interval, only the first usually checks the job: minLag is longer than the time
// between these turns, and shorter than the time from one interval to the next.
func (m *misfireChecker) minLag() time.Duration { return m.intervals.misfires * 3 / 4 }

// weighedCheck is a check with its cost: the scheduled times to visit, at most maxMisfireWeight.
type weighedCheck struct {
	storage.MisfireCheck
	entry   *entry
	decided time.Time
	held    bool
	weight  int
}

// spanCount remembers how many scheduled times a schedule has in a span. Most jobs with the same
// schedule ask for the same span.
type spanCount struct {
	schedule     schedule.Schedule
	after, until time.Time
	first        time.Time
	number       int
}

// of returns the first scheduled time after a time, and how many there are until another time, at
// most maxMisfireWeight.
func (c *spanCount) of(s schedule.Schedule, after, until time.Time) (first time.Time, n int) {
	if s == c.schedule && after.Equal(c.after) && until.Equal(c.until) {
		return c.first, c.number
	}
	*c = spanCount{schedule: s, after: after, until: until, first: s.Next(after)}
	for at := c.first; c.number < maxMisfireWeight && !at.IsZero() && !at.After(until); {
		c.number++
		at = s.Next(at)
	}
	return c.first, c.number
}

func yesLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// fill returns how many of the checks make a page; at least one.
func (m *misfireChecker) fill(checks []weighedCheck) int {
	n := 1
	for left := m.page - checks[0].weight; n < len(checks) && checks[n].weight <= left; n++ {
		left -= checks[n].weight
	}
	return n
}

// checkPage executes a page of checks in the store, and reports whether to continue with the next
// one. After a failure the next page is smaller, so that even a slow store makes progress.
func (m *misfireChecker) checkPage(ctx context.Context, page []weighedCheck) bool {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	checks, entries := make([]storage.MisfireCheck, len(page)), make(map[string]*entry, len(page))
	for i, c := range page {
		checks[i], entries[c.Job] = c.MisfireCheck, c.entry
	}
	cursors, err := m.record(bounded, checks, entries,
		func(e *entry, c storage.Cursor) []storage.Misfired {
			return misfires(e, c, m.clock.now())
		})
	if err != nil {
		if ctx.Err() == nil {
			m.page = max(1, m.page/4)
			m.log.Warn().Err(err).Int("jobs", len(page)).Msg("check misfires failed")
		}
		return false
	}
	if cursors == nil { // another replica is checking
		return false
	}
	if time.Since(start) < batchTimeout/4 {
		m.page = min(2*m.page, maxMisfirePage)
	}
	for _, c := range checks {
		delete(m.held, c.Job)
		if now, known := cursors[c.Job]; known && now.Before(c.ScheduledAt) {
			m.held[c.Job] = true
		}
	}
	return true
}

// record executes checks of the entries in the store, with the records that find returns. Then it
// sets the cursors that have moved, and publishes the records. It returns what CheckMisfires
// returns.
func (m *misfireChecker) record(ctx context.Context, checks []storage.MisfireCheck,
	entries map[string]*entry,
	find func(*entry, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	found := map[string][]storage.Misfired{}
	cursors, err := m.store.CheckMisfires(ctx, checks,
		func(job string, c storage.Cursor) []storage.Misfired {
			found[job] = find(entries[job], c)
			return found[job]
		})
	if err != nil {
		return nil, err
	}
	for _, job := range slices.Sorted(maps.Keys(cursors)) {
		entries[job].activeVersion.decide(cursors[job])
		for _, misfired := range found[job] {
			m.events.missed(entries[job], misfired)
		}
		if len(found[job]) > 0 {
			m.log.Warn().Str("job", job).Int("scheduled_times", len(found[job])).
				Str("policy", string(entries[job].Misfire)).
				Msg("scheduled times missed")
		}
	}
	return cursors, nil
}
