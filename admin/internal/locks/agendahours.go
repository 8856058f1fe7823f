package locks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

const (
	// longRun is the usual duration from which an agenda names the runs of an hour.
	longRun    = 5 * time.Minute
	maxLong    = 3 // jobs with long runs in an hour that are named
	shownHours = 6 // hours that the page lists at first
)

// AgendaHour is the part of an agenda within one hour.
type AgendaHour struct {
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Firings int       `json:"firings"` // without those of paused jobs
	// Waits counts the firings that are expected to wait for another job, or to be skipped because
	// of it.
	Waits  int `json:"waits"`
	Skips  int `json:"skips"` // of them, firings that are expected to be skipped
	Paused int `json:"paused_firings"`
	// Long are the jobs with runs of at least five minutes that are expected to start in this hour,
	// the longest first, at most three. The first hour also has the jobs that run already.
	Long     []LongRuns `json:"long_runs"`
	LongMore int        `json:"more_long_runs,omitempty"` // jobs that Long leaves out
}

// LongRuns are the long runs of a job in an hour.
type LongRuns struct {
	Job    string        `json:"job"`
	Starts int           `json:"starts"` // 0: it runs already
	Usual  float64       `json:"median_seconds,omitempty"`
	Until  time.Time     `json:"until,omitzero"` // expected end of a run that runs already
	usual  time.Duration // as Usual, or the rest of a run that runs already
}

// Words describes the duration of the runs that start.
func (l LongRuns) Words() string {
	if l.Starts == 1 {
		return words.Took(l.usual)
	}
	return words.Count(l.Starts) + " runs of " + words.Took(l.usual)
}

// ConflictWords counts the expected conflicts of the hour, or returns "".
func (h AgendaHour) ConflictWords() string {
	var parts []string
	if h.Skips > 0 {
		parts = append(parts, words.Figure(h.Skips, "skip", "skips"))
	}
	if waits := h.Waits - h.Skips; waits > 0 {
		parts = append(parts, words.Figure(waits, "wait", "waits"))
	}
	return strings.Join(parts, ", ")
}

// divide arranges the firings by hour.
func (a *Agenda) divide(jobs []*contender, firings []upcomingFiring, held []expectedHold) {
	long := make([]map[string]LongRuns, 0)
	for at := a.From; at.Before(a.Until); {
		end := at.Truncate(time.Hour).Add(time.Hour)
		a.Hours = append(a.Hours, AgendaHour{From: at, Until: earlier(end, a.Until)})
		long = append(long, make(map[string]LongRuns))
		at = end
	}
	if len(a.Hours) == 0 {
		return
	}
	begin := a.From.Truncate(time.Hour)
	for _, f := range firings {
		one, i := jobs[f.contender], min(int(f.at.Sub(begin)/time.Hour), len(a.Hours)-1)
		hour := &a.Hours[i]
		if one.pause != nil {
			hour.Paused++
			continue
		}
		hour.Firings++
		wait, waits := a.waits[firingKey{one.job, f.at.UnixNano()}]
		if waits {
			hour.Waits++
		}
		if wait.skipped {
			hour.Skips++
			continue
		}
		if usual := one.typical.Median; usual >= longRun {
			runs := long[i][one.job]
			long[i][one.job] = LongRuns{Job: one.job, Starts: runs.Starts + 1,
				Usual: usual.Seconds(), usual: usual}
		}
	}
	for _, hold := range held {
		rest := hold.until.Sub(a.From)
		if known := long[0][hold.job]; hold.job != "" && rest >= longRun && known.Starts == 0 &&
			rest > known.usual {
			long[0][hold.job] = LongRuns{Job: hold.job, Until: hold.until.UTC(), usual: rest}
		}
	}
	for i := range a.Hours {
		a.Hours[i].setLong(long[i])
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// setLong lists the longest of the runs.
func (h *AgendaHour) setLong(runs map[string]LongRuns) {
	h.Long = make([]LongRuns, 0, len(runs)) // never null
	for _, r := range runs {
		h.Long = append(h.Long, r)
	}
	slices.SortFunc(h.Long, func(x, y LongRuns) int {
		return cmp.Or(cmp.Compare(y.usual, x.usual), strings.Compare(x.Job, y.Job))
	})
	h.LongMore = max(len(h.Long)-maxLong, 0)
	h.Long = h.Long[:min(len(h.Long), maxLong)]
}

// linkHours adds the addresses of the page with all hours, or with the first ones.
func (a *Agenda) linkHours(p param.Set, path string) {
	if len(a.Hours) <= shownHours {
		return
	}
	if a.AllHours = p.Get("hours") != ""; a.AllHours {
		a.OtherHours = p.With(path, "hours", "") + "#hours"
	} else {
		a.OtherHours = p.With(path, "hours", "all") + "#hours"
	}
}

// HoursShown returns the hours that the page lists.
func (a *Agenda) HoursShown() []AgendaHour {
	if a.AllHours {
		return a.Hours
	}
	return a.Hours[:min(len(a.Hours), shownHours)]
}

// Minute returns a time without its seconds, with the day if it is not that of the beginning.
func (a *Agenda) Minute(at time.Time) string {
	if at, from := at.UTC(), a.From.UTC(); at.YearDay() == from.YearDay() {
		return at.Format("15:04")
	}
	return at.UTC().Format("Jan 2 15:04")
}
