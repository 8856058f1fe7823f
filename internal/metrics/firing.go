package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

func (m *Metrics) describeFirings() {
	m.firings = m.counter("holdfast_firings_total",
		"Firings that this replica handled, by kind: scheduled ones of its own cron table, and "+
			"adopted ones, which were triggered, recovered, late, added by a backfill, or left by "+
			"a replica that stopped, was drained or had no worker for them.",
		"job", "kind")
	m.attempts = m.counter("holdfast_attempts_total", "Attempts of runs that this replica started.",
		"job")
	m.runs = m.counter("holdfast_runs_total", "Runs whose end this replica recorded, by final "+
		"state. Skipped and missed firings are included, although they never ran.", "job", "state")
	m.skips = m.counter("holdfast_skips_total",
		"Firings that this replica recorded as skipped or missed, by reason.", "job", "reason")
	m.retries = m.counter("holdfast_retries_total",
		"Attempts that ended and have a next attempt.", "job")
	m.lost = m.counter("holdfast_lost_runs_total",
		"Runs that this replica recorded as lost, by reason: its own runs whose claim or session "+
			"was lost, and runs of dead replicas that it swept.", "job", "reason")
	m.startDelay = m.histogram(waits, "holdfast_start_delay_seconds", "Time from the scheduled "+
		"time of a run to the start of its first attempt, including runs that waited and late "+
		"runs. For runs of backfills, the time from their creation.", "job")
	m.workerWait = m.histogram(waits, "holdfast_worker_wait_seconds",
		"Time that started firings waited for a worker of this replica.").WithLabelValues()
	m.duration = m.histogram(works, "holdfast_run_duration_seconds",
		"Duration of the handler for each attempt.", "job")
}

// jobSeries has the series of one job, or of all others.
type jobSeries struct {
	label                                   string
	scheduledAt, adopted, attempts, retried prometheus.Counter
	ended                                   map[jobs.State]prometheus.Counter
	startDelay, duration                    prometheus.Observer
}

func (m *Metrics) newJobSeries(label string) *jobSeries {
	s := &jobSeries{
		label: label, scheduledAt: m.firings.WithLabelValues(label, "scheduled"),
		adopted:  m.firings.WithLabelValues(label, "adopted"),
		attempts: m.attempts.WithLabelValues(label), retried: m.retries.WithLabelValues(label),
		ended:      map[jobs.State]prometheus.Counter{},
		startDelay: m.startDelay.WithLabelValues(label),
		duration:   m.duration.WithLabelValues(label),
	}
	for _, state := range jobs.States() {
		if state.Final() {
			s.ended[state] = m.runs.WithLabelValues(label, string(state))
		}
	}
	return s
}

// Observe is an engine.Options.Observer.
func (m *Metrics) Observe(e *jobs.Event) {
	s := m.jobs.of(e.Job)
	switch e.Kind {
	case jobs.EventScheduled:
		s.scheduledAt.Inc()
	case jobs.EventAdopted:
		s.adopted.Inc()
	case jobs.EventStarted:
		s.attempts.Inc()
		if e.Attempt == 1 {
			s.startDelay.Observe(seconds(e.StartDelay))
		}
		m.workerWait.Observe(seconds(e.Waited - e.Locking))
		m.granted(e)
	case jobs.EventRetried:
		s.retried.Inc()
		m.released(s, e)
	case jobs.EventSkipped, jobs.EventMissed:
		m.skips.WithLabelValues(s.label, string(e.Reason)).Inc()
		m.waitedFor(e)
		s.end(e.State)
	case jobs.EventLost:
		m.lost.WithLabelValues(s.label, string(e.Reason)).Inc()
		m.released(s, e)
		s.end(e.State)
	case jobs.EventFinished:
		m.released(s, e)
		s.end(e.State)
	}
}

func (s *jobSeries) end(state jobs.State) {
	if counter, final := s.ended[state]; final {
		counter.Inc()
	}
}

// granted records the grants of a start, and how long it waited.
func (m *Metrics) granted(e *jobs.Event) {
	for _, r := range e.Locks {
		if shown(r.Resource) {
			s := m.resources.of(r.Resource)
			s.granted[r.Mode].Inc()
			s.wait.Observe(seconds(e.Locking))
		}
	}
}

// waitedFor records a wait that ended without a grant, by blocker.
func (m *Metrics) waitedFor(e *jobs.Event) {
	if e.Blocker == nil {
		return
	}
	if resource, err := locking.ParseDisplay(e.Blocker.Resource); err == nil && shown(resource) {
		m.resources.of(resource).wait.Observe(seconds(e.Locking))
	}
}

// released records how long an attempt of this replica ran and held its locks.
func (m *Metrics) released(s *jobSeries, e *jobs.Event) {
	if e.Held == 0 {
		return // it did not start, or belongs to another replica
	}
	s.duration.Observe(seconds(e.Took))
	for _, r := range e.Locks {
		if shown(r.Resource) {
			m.resources.of(r.Resource).hold.Observe(seconds(e.Held))
		}
	}
}

// shown reports whether a resource is one that jobs name. A job's own name and its
// group are also locked, but counted by job.
func shown(r locking.Resource) bool {
	return r.Kind() != locking.KindJob && r.Kind() != locking.KindGroup
}

// seconds returns a duration in seconds. It returns 0 for a negative one, which an
// adjusted clock may cause.
func seconds(d time.Duration) float64 { return max(0, d).Seconds() }
