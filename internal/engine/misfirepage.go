package engine

import (
	"cmp"
	"context"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// A page of checks is one transaction. Most checks visit few scheduled times, and many fit into
	// a page. After a long outage 50 jobs fit, with 100 records each.
	maxMisfirePage   = storage.MaxBatch
	maxMisfireWeight = maxMisfirePage / 50
)

// checkMisfires records misfires of the jobs that this replica fires, page by page, for at most
// batchTimeout. The next call does the rest.
func (u *upkeep) checkMisfires(ctx context.Context) {
	checks := u.undecided(u.clock.now())
	for begun := time.Now(); len(checks) > 0 && time.Since(begun) < batchTimeout; {
		n := u.fill(checks)
		if !u.checkPage(ctx, checks[:n]) {
			return
		}
		checks = checks[n:]
	}
}

// undecided returns checks of the jobs with scheduled times that are too old to start and that may
// have no record. The jobs that are furthest behind come first. Jobs whose scheduled times a pause
// held back at the last check come last.
func (u *upkeep) undecided(now time.Time) []weighedCheck {
	var checks []weighedCheck
	for _, e := range u.table.all() {
		decided := e.activeVersion.decidedUntil()
		until := e.decidable(decided, now)
		scheduledAt := e.Schedule.Next(decided)
		if e.activeVersion.stale() || scheduledAt.IsZero() || scheduledAt.After(until) {
			continue
		}
		check := weighedCheck{
			MisfireCheck: storage.MisfireCheck{Job: e.Name, Group: e.Group,
				Version: e.activeVersion.version.Load(), ScheduledAt: scheduledAt, Until: until,
				Asked: now}, entry: e, decided: decided,
		}
		if check.held = u.held[e.Name]; check.held {
			check.weight, scheduledAt = 1, time.Time{}
		}
		for ; check.weight < maxMisfireWeight && !scheduledAt.IsZero() &&
			!scheduledAt.After(until); scheduledAt = e.Schedule.Next(scheduledAt) {
			check.weight++
		}
		checks = append(checks, check)
	}
	slices.SortFunc(checks, func(a, b weighedCheck) int {
		return cmp.Or(yesLast(a.held, b.held), a.decided.Compare(b.decided),
			strings.Compare(a.Job, b.Job))
	})
	return checks
}

// weighedCheck is a check with its cost: the scheduled times to visit, at most maxMisfireWeight.
type weighedCheck struct {
	storage.MisfireCheck
	entry   *entry
	decided time.Time
	held    bool
	weight  int
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
func (u *upkeep) fill(checks []weighedCheck) int {
	n := 1
	for left := u.page - checks[0].weight; n < len(checks) && checks[n].weight <= left; n++ {
		left -= checks[n].weight
	}
	return n
}

// checkPage executes a page of checks in the store, and reports whether to continue with the next
// one. After a failure the next page is smaller, so that even a slow store makes progress.
func (u *upkeep) checkPage(ctx context.Context, page []weighedCheck) bool {
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	checks, entries := make([]storage.MisfireCheck, len(page)), make(map[string]*entry, len(page))
	for i, c := range page {
		checks[i], entries[c.Job] = c.MisfireCheck, c.entry
	}
	found := map[string][]storage.Misfired{}
	cursors, err := u.store.CheckMisfires(bounded, checks,
		func(job string, c storage.Cursor) []storage.Misfired {
			misfired := misfires(entries[job], c, u.clock.now())
			found[job] = misfired
			return misfired
		})
	if err != nil {
		if ctx.Err() == nil {
			u.page = max(1, u.page/4)
			u.log.Warn().Err(err).Int("jobs", len(page)).Msg("check misfires failed")
		}
		return false
	}
	if time.Since(begun) < batchTimeout/4 {
		u.page = min(2*u.page, maxMisfirePage)
	}
	for _, c := range checks {
		delete(u.held, c.Job)
		if now, known := cursors[c.Job]; known && now.Before(c.ScheduledAt) {
			u.held[c.Job] = true
		}
	}
	u.decided(cursors, entries, found)
	return cursors != nil
}

// decided sets the cursors that a check has moved, and publishes its records.
func (u *upkeep) decided(cursors map[string]time.Time, entries map[string]*entry,
	found map[string][]storage.Misfired) {
	for _, job := range slices.Sorted(maps.Keys(cursors)) {
		entries[job].activeVersion.decide(cursors[job])
		for _, m := range found[job] {
			u.publishMissed(entries[job], m)
		}
		if len(found[job]) > 0 {
			u.log.Warn().Str("job", job).Int("scheduled_times", len(found[job])).
				Str("policy", string(entries[job].Misfire)).
				Msg("scheduled times missed")
		}
	}
}
