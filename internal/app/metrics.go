package app

import "github.com/holdfast-dev/holdfast/internal/metrics"

// addSources gives the metrics the sources that each scrape reads.
func (r *Replica) addSources() {
	sources := metrics.Sources{Stats: r.scheduler.Stats, Status: r.severities}
	if r.locks != nil && r.locks.watch != nil {
		sources.Servers = r.locks.watch.Servers
	}
	if r.tracing != nil {
		sources.Spans = r.tracing.Spans
	}
	r.metrics.Watch(sources)
}
