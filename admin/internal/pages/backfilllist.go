package pages

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// backfillList is a list of backfills for the template.
type backfillList struct {
	Now       time.Time
	Backfills []storage.Backfill
	Can       permission.Allowed // actions to which each backfill has links
	// Slots is the data-slots of the rows: "keep" if rows that no longer match stay in sight.
	Slots string
}

// Kept returns the list of active backfills, whose rows stay in sight when they have ended.
func (l backfillList) Kept() backfillList {
	l.Slots = "keep"
	return l
}

// Links reports whether backfills of the list may have links to actions.
func (l backfillList) Links() bool {
	return l.Can.Cancel && (l.Slots != "" || slices.ContainsFunc(l.Backfills,
		func(b storage.Backfill) bool { return b.State == storage.BackfillActive }))
}

func newBackfillList(now time.Time, backfills []storage.Backfill,
	can permission.Allowed) backfillList {
	return backfillList{Now: now, Backfills: backfills, Can: can}
}

// backfillAt is a backfill for the template.
type backfillAt struct {
	Now time.Time
	storage.Backfill
}

func newBackfillAt(now time.Time, b storage.Backfill) backfillAt { return backfillAt{now, b} }

// backfillClass returns the class of a backfill's badge.
func backfillClass(b storage.Backfill) string {
	switch {
	case b.State == storage.BackfillActive:
		return "running"
	case b.State == storage.BackfillStopped, b.Unsuccessful > 0:
		return "skipped"
	case b.State == storage.BackfillCompleted:
		return "succeeded"
	}
	return "cancelled"
}
