package app

import "github.com/holdfast-dev/holdfast/internal/metrics"

// addSources gives the metrics the sources that each scrape reads, and registers the metrics with
// the Registerer of the program.
func (r *Replica) addSources() error {
	sources := metrics.Sources{Stats: r.scheduler.Stats, Status: r.status.severities}
	if r.locks != nil && r.locks.watch != nil {
		sources.Servers = r.locks.watch.Servers
	}
	if databases := r.databases; len(databases) > 0 {
		sources.Databases = func() map[string]bool { return availableDatabases(databases) }
	}
	if r.tracing != nil {
		sources.Spans = r.tracing.Spans
	}
	r.metrics.Watch(sources)
	if r.registerer == nil {
		return nil
	}
	return r.metrics.Register(r.registerer)
}
