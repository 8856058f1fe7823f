package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// runsAndRows pairs each run with the row that its transaction inserted. Both
// were last written by that transaction, so they carry its number.
const runsAndRows = `
SELECT job, scheduled_at, coalesce(state, ''), started_at, finished_at, at
FROM (SELECT job::text COLLATE "C" AS job, scheduled_at, state, started_at, finished_at,
    xmin AS xact FROM holdfast.runs) r
FULL JOIN (SELECT c.relname::text COLLATE "C" AS job, i.xmin AS xact, i.at FROM bench.inserted i
    JOIN pg_class c ON c.oid = i.tableoid) i
USING (job, xact)`

// window is the measured seconds: the scheduled times from the first, included, to the
// last, excluded.
type window struct {
	jobs        int
	from, until time.Time
	// the jobs insert nothing: a run recorded as succeeded counts in place of its row
	noOp bool
}

// counted returns the times at which the counters of a load are read.
func (w window) counted() (from, until time.Time) {
	return w.from.Add(-beforeBurst), w.until.Add(-beforeBurst)
}

func (w window) firings() int { return w.jobs * int(w.until.Sub(w.from)/time.Second) }

func (w window) holds(scheduledAt time.Time) bool {
	return !scheduledAt.Before(w.from) && scheduledAt.Before(w.until)
}

// pair is a run, a row, or both.
type pair struct {
	job               string
	scheduledAt       *time.Time // nil without a run
	state             string
	started, finished *time.Time
	inserted          *time.Time // nil without a row
}

// tally is what became of the firings of a window.
type tally struct {
	firings           int
	once, more, never int
	// Of the firings that ran never, by the state of what is recorded; "" is
	// nothing at all.
	neverBy map[string]int

	// ended is how many runs ended between the two readings of the counters, whatever the result
	// and the scheduled time. If a load is too large, it is less than firings.
	ended int

	// Whenever it was, inside the window or not.
	orphans  int // rows without a run
	unbacked int // runs that are recorded as succeeded without a row
	foreign  int // rows of a run that is not recorded as succeeded

	started, inserted, finished delays
}

// count reads runs and rows and counts the firings of the window.
func count(ctx context.Context, db *pgx.Conn, pairs string, w window) (tally, error) {
	rows, err := db.Query(ctx, pairs)
	if err != nil {
		return tally{}, fmt.Errorf("runs and rows: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p pair, err error) {
		err = row.Scan(&p.job, &p.scheduledAt, &p.state, &p.started, &p.finished, &p.inserted)
		return p, err
	})
	if err != nil {
		return tally{}, fmt.Errorf("runs and rows: %w", err)
	}
	return tallyOf(all, w), nil
}

type firing struct {
	job         string
	scheduledAt int64 // seconds since 1970
}

func tallyOf(pairs []pair, w window) tally {
	t := tally{firings: w.firings(), neverBy: map[string]int{}}
	rows, states := map[firing]int{}, map[firing]string{}
	from, until := w.counted()
	for _, p := range pairs {
		if !w.noOp {
			t.compare(p)
		} else if p.state == "succeeded" {
			p.inserted = p.finished
		}
		if p.finished != nil && !p.finished.Before(from) && p.finished.Before(until) {
			t.ended++
		}
		if p.scheduledAt == nil || !w.holds(*p.scheduledAt) {
			continue
		}
		f := firing{p.job, p.scheduledAt.Unix()}
		states[f] = p.state
		if p.inserted != nil {
			rows[f]++
			t.late(p)
		}
	}
	for i := range w.jobs {
		for scheduledAt := w.from; scheduledAt.Before(w.until); scheduledAt =
			scheduledAt.Add(time.Second) {
			f := firing{jobName(i), scheduledAt.Unix()}
			switch rows[f] {
			case 0:
				t.never++
				t.neverBy[states[f]]++
			case 1:
				t.once++
			default:
				t.more++
			}
		}
	}
	return t
}

// compare holds tables and history against each other.
func (t *tally) compare(p pair) {
	switch {
	case p.scheduledAt == nil:
		t.orphans++
	case p.inserted != nil && p.state != "succeeded":
		t.foreign++
	case p.inserted == nil && p.state == "succeeded":
		t.unbacked++
	}
}

func (t *tally) late(p pair) {
	for _, l := range []struct {
		to *delays
		at *time.Time
	}{{&t.started, p.started}, {&t.inserted, p.inserted}, {&t.finished, p.finished}} {
		if l.at != nil {
			*l.to = append(*l.to, l.at.Sub(*p.scheduledAt))
		}
	}
}

// delays are how long after its scheduled time something happened to each firing.
type delays []time.Duration

// percentile returns the nearest rank of share, which is from 0 to 1.
func (l delays) percentile(share float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
