package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

const (
	conflictsSpan = 24 * time.Hour
	// mostForecast is how many scheduled times are looked at: where more come within the
	// span, the forecast ends sooner.
	mostForecast   = 50_000
	firingsAtOnce  = 16 // of one job, asked of the cron table
	shownForecasts = 60
	mostForecasts  = 1000
)

// forecast is which firings are likely to meet another that holds what they want.
type forecast struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"` // how far it reaches
	// that share something with others, and were looked at
	Jobs           int `json:"jobs"`
	ScheduledTimes int `json:"scheduled_times"` // of theirs
	// Collisions are by who is in whose way: those that are likely first, each
	// kind with the most often first.
	Collisions []collision `json:"collisions"`
	Cut        []string    `json:"cut"` // what it leaves out, or guesses, in words

	Resource string `json:"-"`
}

// collision is one job that finds another in its way.
type collision struct {
	Job      string `json:"job"`    // that finds
	Holder   string `json:"holder"` // what it needs held by this
	Resource string `json:"resource"`
	// Likely counts the scheduled times at which it happens where every run takes as long as
	// its job's runs do at the median, Possible those where each takes as long
	// as all but one in 20 do.
	Likely   int       `json:"likely"`
	Possible int       `json:"possible"`
	Skips    int       `json:"skips"`          // of the likely, how many would wait in vain
	SkipsMay int       `json:"possible_skips"` // of the possible
	First    time.Time `json:"first"`          // scheduledAt
	Wait     float64   `json:"longest_wait_seconds"`

	wait time.Duration
}

// Longest returns how long the longest wait is expected to be.
func (c collision) Longest() time.Duration { return c.wait }

// Outcome says what becomes of the firings.
func (c collision) Outcome() string {
	switch {
	case c.Likely > 0 && c.Skips == c.Likely:
		return "skipped"
	case c.Skips > 0:
		return fmt.Sprintf("%d of %d skipped", c.Skips, c.Likely)
	case c.SkipsMay > 0:
		return "waits; may be skipped"
	}
	return "waits"
}

func (s *Server) forecastJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (forecast, error) {
		p, err := readParams(r, "resource")
		if err != nil {
			return forecast{}, err
		}
		about, err := p.resource("resource")
		if err != nil {
			return forecast{}, err
		}
		now, err := s.reader.now(ctx)
		if err != nil {
			return forecast{}, err
		}
		return s.reader.forecast(ctx, now, about)
	})
}

func (s *Server) forecastPage(w http.ResponseWriter, r *http.Request) {
	p, err := readParams(r, "resource", "refresh")
	var about *locking.Resource
	if err == nil {
		about, err = p.resource("resource")
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s, w, r, page[forecast]{
		template: "forecast.html", section: "/locks", title: "Forecast of collisions",
		twin: p.with("/api/v1/locks/forecast"),
		question: func(ctx context.Context, beat pulse) (forecast, error) {
			f, err := s.reader.forecast(ctx, beat.now, about)
			f.Resource = p.Get("resource")
			return f, err
		},
	})
}

// forecast looks ahead, by this replica's cron table.
func (r *reader) forecast(ctx context.Context, now time.Time,
	about *locking.Resource) (forecast, error) {
	if about == nil {
		return r.ahead.get(ctx, now)
	}
	return r.lookAhead(ctx, now, about)
}

func (r *reader) lookAhead(ctx context.Context, now time.Time,
	about *locking.Resource) (forecast, error) {
	f := forecast{From: now, Until: now.Add(conflictsSpan), Collisions: []collision{},
		Cut: []string{}}
	lockers, err := r.lockers.get(ctx, now)
	if err != nil {
		return f, fmt.Errorf("what jobs lock: %w", err)
	}
	if r.scheduledTimes == nil {
		f.Cut = append(f.Cut, "this replica fires no jobs, so it knows no scheduled times")
		return f, nil
	}
	rivals := rivalsOf(lockers, about)
	f.Jobs = len(rivals)
	for _, rival := range rivals {
		rival.patience = conflictsSpan
		if r.patience != nil {
			rival.patience, rival.patient = r.patience(rival.job, conflictsSpan)
		}
	}
	scheduledTimes := r.firingsAhead(&f, rivals)
	if f.ScheduledTimes = len(scheduledTimes); ctx.Err() != nil {
		return f, ctx.Err()
	}
	if err := r.measure(ctx, &f, rivals, scheduledTimes); err != nil {
		return f, err
	}
	tally := newCollisions(rivals)
	tally.play(scheduledTimes, func(r *rival) time.Duration { return r.typical.Median },
		(*collision).likely)
	tally.play(scheduledTimes, func(r *rival) time.Duration { return r.typical.Long },
		(*collision).possible)
	f.Collisions = tally.sorted(about)
	if len(f.Collisions) > mostForecasts {
		f.Cut = append(f.Cut, fmt.Sprintf("only %d of %d collisions are listed", mostForecasts,
			len(f.Collisions)))
		f.Collisions = f.Collisions[:mostForecasts]
	}
	return f, nil
}

// Summary says how much is to be expected.
func (f *forecast) Summary() string {
	likely, skips, possible := 0, 0, 0
	for _, c := range f.Collisions {
		likely, skips, possible = likely+c.Likely, skips+c.Skips, possible+c.Possible
	}
	reach := "In the next 24 h"
	if f.Short() {
		reach = "In the next " + span(f.Until.Sub(f.From))
	}
	switch {
	case f.Jobs == 0:
		return "No two jobs of the cron table want the same, so none can be in another's way."
	case likely+possible == 0:
		return fmt.Sprintf("%s, no firing is expected to find another in its way: %s of %s that "+
			"share something were looked at.", reach,
			figure(f.ScheduledTimes, "scheduled time", "scheduled times"),
			figure(f.Jobs, "job", "jobs"))
	case likely == 0:
		return fmt.Sprintf(
			"%s, no firing should find another in its way; %d will if runs take long.", reach,
			possible)
	}
	text := fmt.Sprintf("%s, %s", reach,
		verb(likely, "one firing is likely to find another in its way",
			fmt.Sprintf("%d firings are likely to find another in their way", likely)))
	if skips > 0 {
		text += fmt.Sprintf(", and %s",
			verb(skips, "one would be skipped", fmt.Sprintf("%d would be skipped", skips)))
	}
	if possible > likely {
		text += fmt.Sprintf("; %d if runs take long", possible)
	}
	return text + "."
}

// CollisionsShown returns those that the page lists.
func (f *forecast) CollisionsShown() []collision {
	return f.Collisions[:min(len(f.Collisions), shownForecasts)]
}

// CollisionsMore returns how many it does not list.
func (f *forecast) CollisionsMore() int { return len(f.Collisions) - len(f.CollisionsShown()) }

// Short reports whether the forecast does not reach as far as it is meant to.
func (f *forecast) Short() bool { return f.Until.Sub(f.From) < conflictsSpan }

func (c *collision) likely(scheduledAt time.Time, wait time.Duration, skipped bool) {
	c.Likely++
	if skipped {
		c.Skips++
	}
	c.meet(scheduledAt, wait)
}

func (c *collision) possible(scheduledAt time.Time, wait time.Duration, skipped bool) {
	c.Possible++
	if skipped {
		c.SkipsMay++
	}
	c.meet(scheduledAt, wait)
}

func (c *collision) meet(scheduledAt time.Time, wait time.Duration) {
	if c.First.IsZero() || scheduledAt.Before(c.First) {
		c.First = scheduledAt
	}
	c.wait = max(c.wait, wait)
	c.Wait = c.wait.Seconds()
}

func byLikelihood(a, b collision) int {
	yes := func(c collision) int { return min(c.Likely, 1) }
	return cmp.Or(cmp.Compare(yes(b), yes(a)), cmp.Compare(b.Skips, a.Skips),
		cmp.Compare(b.Likely, a.Likely), cmp.Compare(b.Possible, a.Possible),
		cmp.Compare(a.Job, b.Job), cmp.Compare(a.Holder, b.Holder),
		cmp.Compare(a.Resource, b.Resource))
}
