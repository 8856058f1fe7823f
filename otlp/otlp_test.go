package otlp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/collectortest"
	"github.com/holdfast-dev/holdfast/internal/tracing"
)

var _ engine.Tracing = (*exported)(nil)

func open(t *testing.T, o tracing.Options) *exported {
	t.Helper()
	traced, err := Exporter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = traced.Shutdown(ctx) // no effect if the test has done it
	})
	return traced.(*exported)
}

// The share of traced runs is the configured one for any kind of run id. A run that is traced at a
// small share is traced at each larger share.
func TestShareOfRuns(t *testing.T) {
	const runs = 20000
	shares := []float64{0, 0.001, 0.1, 0.5, 1}
	var traced []tracing.Exported
	for _, share := range shares {
		traced = append(traced, &exported{least: least(share)})
	}
	for name, draw := range map[string]func() uuid.UUID{"random": uuid.New,
		"by time": func() uuid.UUID { return uuid.Must(uuid.NewV7()) }} {
		counts := make([]int, len(shares))
		for range runs {
			run, before := draw(), false
			for i := range shares {
				is := traced[i].Traces(run)
				if before && !is {
					t.Fatalf("%s: %s is traced at %v and not at %v", name, run, shares[i-1],
						shares[i])
				}
				if before = is; is {
					counts[i]++
				}
			}
		}
		for i, share := range shares {
			want := share * runs
			if off := float64(counts[i]) - want; off*off > 36*max(want*(1-share), 0) {
				// 6 standard deviations
				t.Errorf("%s: of %d runs %d are traced at %v", name, runs, counts[i], share)
			}
		}
	}
}

// The trace has the id of the run, the sender's attributes and the configured headers. Long texts
// are cut.
func TestSpansAreSent(t *testing.T) {
	c := collectortest.New(t)
	cluster, run, start := uuid.New(), uuid.Must(uuid.NewV7()), time.Now().Add(-time.Hour)
	traced := open(t, tracing.Options{
		Endpoint: c.URL, Headers: map[string]string{"Authorization": "Bearer xyz"}, Ratio: 1,
		Service: "nightly", Version: "v9", Replica: "replica-a",
		Cluster: cluster, Log: zerolog.Nop(),
	})
	ctx, root := traced.Root(run, "run x", start)
	_, child := root.TracerProvider().Tracer("test").
		Start(ctx, "child", trace.WithAttributes(attribute.String("long",
			strings.Repeat("x", 2*maxText))))
	child.End()
	root.End()
	if err := traced.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := c.Spans()
	if len(spans) != 2 {
		t.Fatalf("spans: %+v", spans)
	}
	if spans[0].Name != "child" || spans[0].Parent != spans[1].ID || spans[1].Parent != "" ||
		!spans[1].Began.Equal(start.Round(0)) || len(spans[0].Marks["long"]) != maxText {
		t.Errorf("spans: %.300v", spans)
	}
	for _, s := range spans {
		if s.Trace != strings.ReplaceAll(run.String(), "-", "") || s.Trace != engine.TraceID(run) {
			t.Errorf("%s is in trace %s, the run is %s", s.Name, s.Trace, run)
		}
	}
	resource, headers := c.Sender()
	for key, want := range map[string]string{
		"service.name": "nightly", "service.version": "v9", "service.instance.id": "replica-a", "holdfast.cluster.id": cluster.String(),
	} {
		if resource[key] != want {
			t.Errorf("%s is %q, want %q", key, resource[key], want)
		}
	}
	if headers.Get("Authorization") != "Bearer xyz" {
		t.Errorf("headers: %v", headers)
	}
	if sent, failed, dropped := traced.Spans(); sent != 2 || failed != 0 || dropped != 0 {
		t.Errorf("%d sent, %d failed, %d dropped", sent, failed, dropped)
	}
}

// endSpans ends n spans and returns how long the calls took.
func endSpans(traced tracing.Exported, n int) time.Duration {
	start := time.Now()
	for range n {
		_, span := traced.Root(uuid.New(), "run", start)
		span.End()
	}
	return time.Since(start)
}

// A collector that never replies, or replies with errors, does not delay the callers that end
// spans. Lost spans are counted and logged once. The shutdown ends in time.
func TestUnresponsiveCollectorDoesNotDelayRuns(t *testing.T) {
	stuck := make(chan struct{})
	for name, answer := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-stuck:
			case <-r.Context().Done():
			}
		},
		"refusing": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no room", http.StatusBadRequest) },
		"busy":     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			c := collectortest.New(t)
			c.Answer(answer)
			var log bytes.Buffer
			traced := open(t, tracing.Options{Endpoint: c.URL, Ratio: 1, Service: "s",
				Log: zerolog.New(zerolog.SyncWriter(&log))})
			const ended = 3 * queue
			if took := endSpans(traced, ended); took > 5*time.Second {
				t.Errorf("%d spans took %s", ended, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := traced.Shutdown(ctx)
			if took := time.Since(start); took > 5*time.Second ||
				err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the end took %s: %v", took, err)
			}
			deadline := time.Now().Add(20 * time.Second)
			for ; traced.sender.waiting.Load() > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("spans after the stop: got some in the queue, want none")
				}
			}
			if sent, failed, dropped := traced.Spans(); sent != 0 || failed == 0 ||
				name != "refusing" && dropped == 0 || failed+dropped != ended {
				t.Errorf("%d sent, %d failed, %d dropped of %d", sent, failed, dropped, ended)
			}
			if lines := strings.Count(log.String(), "spans could not be sent"); lines != 1 {
				t.Errorf("%d lines: %s", lines, log.String())
			}
			if endSpans(traced, 1); traced.sender.waiting.Load() != 0 {
				t.Error("queue after the stop: got a span, want none")
			}
		})
	}
	close(stuck)
}

// The start sends no request, and nothing fails.
func TestUnreachableCollector(t *testing.T) {
	traced := open(t, tracing.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Ratio: 1, Service: "s",
		Log: zerolog.Nop()})
	endSpans(traced, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := traced.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
