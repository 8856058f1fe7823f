package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/tracing"
)

// flushTimeout is the longest time that a stopping replica waits while it sends its last spans.
const flushTimeout = 5 * time.Second

// checkTracing returns an error for a section tracing that the program cannot use.
func checkTracing(config *configs.Config, o Options) error {
	switch {
	case config.Tracing == nil:
		return nil
	case o.Tracers != nil:
		return errors.New("found a tracer provider of the program and the section tracing, " +
			"expected one of them")
	case o.Exporter == nil:
		return errors.New("found the section tracing in a program without an exporter, expected " +
			"holdfast.WithTracing(otlp.Exporter) with the package " +
			"github.com/holdfast-dev/holdfast/otlp")
	}
	return nil
}

// openTracing makes the tracing of runs, if it is configured.
func (r *Replica) openTracing(ctx context.Context, config *configs.Config) (err error) {
	t := config.Tracing
	switch {
	case t == nil && r.tracers != nil:
		r.traces = tracing.NewProgram(r.tracers)
		return nil
	case t == nil:
		return nil
	}
	headers := map[string]string{}
	for _, h := range t.Headers {
		headers[h.Name] = h.Value.Reveal()
	}
	r.tracing, err = r.exporter(ctx, tracing.Options{
		Endpoint: t.Endpoint, Headers: headers, Ratio: t.Sample, Service: t.ServiceName,
		Version: Version(), Replica: config.Replica.Name, Cluster: r.store.ClusterID(),
		Log: r.log.With().Str("replica", config.Replica.Name).Logger(),
	})
	if err != nil {
		return err
	}
	r.traces = r.tracing
	return nil
}

// tracesOf returns a function that returns the trace of a run for its page. The trace is zero if
// the run is not traced.
func (r *Replica) tracesOf(traces engine.Tracing) func(run uuid.UUID) page.Trace {
	return func(run uuid.UUID) page.Trace {
		if traces == nil || !traces.Traces(run) {
			return page.Trace{}
		}
		id := engine.TraceID(run)
		t := r.config.Load().Tracing
		if t == nil {
			return page.Trace{ID: id}
		}
		return page.Trace{ID: id, Link: strings.ReplaceAll(t.Link, configs.TraceIDMark, id)}
	}
}

// flush sends the last spans. It takes at most flushTimeout.
func (r *Replica) flush() {
	if r.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := r.tracing.Shutdown(ctx); err != nil {
		r.log.Warn().Err(err).Msg("last spans were not sent")
	}
}
