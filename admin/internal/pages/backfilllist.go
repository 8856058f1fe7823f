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
}

// Links reports whether backfills of the list have links to actions.
func (l backfillList) Links() bool {
	return l.Can.Cancel && slices.ContainsFunc(l.Backfills, func(b storage.Backfill) bool {
		return b.State == storage.BackfillActive
	})
}

func newBackfillList(now time.Time, backfills []storage.Backfill,
	can permission.Allowed) backfillList {
	return backfillList{now, backfills, can}
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
