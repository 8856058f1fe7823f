package jobs_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// planted is a store with a mistake, which it makes once or always.
type planted struct {
	jobs.Store
	note     func(n jobs.Note) (forget bool)
	misfired func(m jobs.Misfired) (forget bool)
	start    func(r *jobs.StartRequest)
	started  func(r jobs.StartRequest, result *jobs.StartResult)
}

func (p *planted) Note(ctx context.Context, session uuid.UUID, notes []jobs.Note) ([]bool, error) {
	if p.note == nil {
		return p.Store.Note(ctx, session, notes)
	}
	forgotten := make([]bool, len(notes))
	var rest []jobs.Note
	for i, n := range notes {
		if forgotten[i] = p.note(n); !forgotten[i] {
			rest = append(rest, n)
		}
	}
	written, err := p.Store.Note(ctx, session, rest)
	if err != nil {
		return nil, err
	}
	for i, f := range forgotten {
		if f {
			written = slices.Insert(written, i, true)
		}
	}
	return written, nil
}

func (p *planted) CheckMisfires(ctx context.Context, checks []jobs.MisfireCheck, find func(string, jobs.Cursor) []jobs.Misfired) (map[string]time.Time, error) {
	return p.Store.CheckMisfires(ctx, checks, func(job string, c jobs.Cursor) []jobs.Misfired {
		found := find(job, c)
		if p.misfired == nil {
			return found
		}
		return slices.DeleteFunc(found, p.misfired)
	})
}

func (p *planted) Start(ctx context.Context, session uuid.UUID, requests []jobs.StartRequest) ([]jobs.StartResult, error) {
	if p.start != nil {
		requests = slices.Clone(requests)
		for i := range requests {
			p.start(&requests[i])
		}
	}
	results, err := p.Store.Start(ctx, session, requests)
	for i := range results {
		if p.started != nil {
			p.started(requests[i], &results[i])
		}
	}
	return results, err
}

// The oracle finds each of these mistakes, and without one nothing: it is no
// oracle that is always content.
func TestOracleFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var once atomic.Bool
	var asked sync.Map // runs that the store may know of, and firings of which it was to be told
	for _, c := range []struct {
		name string
		many float64
		into planted
		want string // of a violation; "" for none
	}{
		{name: "nothing", many: 1},
		{name: "a due that nobody started is forgotten", many: 1, want: "nothing became of it", into: planted{
			misfired: func(m jobs.Misfired) bool {
				return m.State == jobs.Missed && !strings.Contains(m.Detail, "one by one") && once.CompareAndSwap(false, true)
			},
		}},
		{name: "a note is lost, and its due is not looked for", want: "nothing became of it", into: planted{
			start: func(r *jobs.StartRequest) { asked.Store(r.Run, true) },
			note: func(n jobs.Note) bool { // what waits in the store is taken up again, so it must be the first it hears
				_, known := asked.Load(n.Run)
				if n.State == jobs.Skipped && !known {
					asked.Store(n.Firing, true)
				}
				return n.State == jobs.Skipped && !known
			},
			misfired: func(m jobs.Misfired) bool {
				_, lost := asked.Load(m.Firing)
				return lost
			},
		}},
		{name: "a firing that another has runs again", want: "no record", into: planted{
			started: func(_ jobs.StartRequest, result *jobs.StartResult) {
				if result.Outcome == jobs.StartDuplicate && once.CompareAndSwap(false, true) {
					result.Outcome, result.Token = jobs.StartGranted, 1<<40
				}
			},
		}, many: 1},
		{name: "conflicts are not seen", want: "at the same time", into: planted{start: func(r *jobs.StartRequest) { r.Requests = nil }}},
		{name: "a due runs that there is not", want: "never due", into: planted{start: func(r *jobs.StartRequest) {
			if r.Firing.Key == "" && once.CompareAndSwap(false, true) {
				r.Firing.Due = r.Firing.Due.Add(-time.Millisecond)
			}
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			once.Store(false)
			how := hour(1)
			how.within, how.settle, how.many, how.deploys = 15*time.Minute, 20*time.Minute, c.many, 1
			how.plant = func(link jobs.Store) jobs.Store {
				into := c.into
				into.Store = link
				return &into
			}
			verdict := simulate(t, how)
			t.Log(verdict)
			found := slices.ContainsFunc(verdict.Violations, func(v string) bool { return strings.Contains(v, c.want) })
			switch {
			case c.want == "" && len(verdict.Violations) > 0:
				t.Errorf("found wrong: %q", verdict.Violations)
			case c.want != "" && !found:
				t.Errorf("not found: %q; but %q", c.want, verdict.Violations)
			}
		})
	}
}
