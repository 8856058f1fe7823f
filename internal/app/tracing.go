package app

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
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
