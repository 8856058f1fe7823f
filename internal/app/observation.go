package app

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/internal/tracing"
	"github.com/holdfast-dev/holdfast/jobs"
)

// flushTimeout bounds how long a replica that stops waits for its last spans to
// be sent.
const flushTimeout = 5 * time.Second

// newTracing returns what traces runs, or nil where nothing is traced.
func newTracing(ctx context.Context, config *configs.Config, cluster uuid.UUID,
	log zerolog.Logger) (*tracing.Tracing, error) {
	t := config.Tracing
	if t == nil {
		return nil, nil
	}
	headers := map[string]string{}
	for _, h := range t.Headers {
		headers[h.Name] = h.Value.Reveal()
	}
	return tracing.New(ctx, tracing.Options{
		Endpoint: t.Endpoint, Headers: headers, Ratio: t.Sample, Service: t.ServiceName,
		Version: Version(), Replica: config.Replica.Name, Cluster: cluster,
		Log: log.With().Str("replica", config.Replica.Name).Logger(),
	})
}

// timedLocks is stage 1, timed where it is memcached: what is in memory takes no
// time worth telling.
func (r *Replica) timedLocks() *LockBackend {
	if r.locks == nil || r.locks.watch == nil {
		return r.locks
	}
	timed := *r.locks
	timed.Backend = r.metrics.Backend(r.locks.Backend)
	return &timed
}

// observe has a scheduler's options tell metrics and traces what happens.
func (r *Replica) observe(o *jobs.Options) {
	r.metrics.Expect(r.table)
	o.Store, o.RunStore, o.Observer = r.timed, r.store.Store, r.metrics.Observe
	if r.tracing != nil { // a nil *tracing.Tracing would not be a nil jobs.Tracing
		o.Tracing = r.tracing
	}
}

// watch has the metrics ask what is a state rather than an event.
func (r *Replica) watch() {
	sources := metrics.Sources{Stats: r.scheduler.Stats}
	if r.locks != nil && r.locks.watch != nil {
		sources.Servers = r.locks.watch.Servers
	}
	if r.tracing != nil {
		sources.Spans = r.tracing.Spans
	}
	r.metrics.Watch(sources)
}

// traceOf returns the trace of a run, for its page; none where it has none.
func (r *Replica) traceOf(run uuid.UUID) admin.Trace {
	if r.tracing == nil || !r.tracing.Traces(run) {
		return admin.Trace{}
	}
	id := jobs.TraceID(run)
	return admin.Trace{ID: id, Link: strings.ReplaceAll(r.config.Load().Tracing.Link,
		configs.TraceIDMark, id)}
}

// flush sends the last spans, for a bounded time.
func (r *Replica) flush() {
	if r.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := r.tracing.Shutdown(ctx); err != nil {
		r.log.Warn().Err(err).Msg("spans are left")
	}
}
