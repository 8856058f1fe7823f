// Package collectortest provides a collector of spans for tests. It accepts OTLP over HTTP and
// stores the received spans.
package collectortest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Trace, ID, Parent string // in hexadecimal
	Name              string
	Marks             map[string]string // attributes
	Events            []map[string]string
	Failed            bool
	Words             string // of the status
	Began, Ended      time.Time
}

// Collector is a collector. Its methods may be called concurrently.
type Collector struct {
	URL string // with the path of OTLP traces

	mu       sync.Mutex
	spans    []Span
	resource map[string]string
	headers  http.Header
	requests int
	answer   http.HandlerFunc // replaces the handler that stores spans
	changed  chan struct{}    // closed when spans arrive
}

// New starts a collector and stops it at the end of the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	c.URL = server.URL + "/v1/traces"
	return c
}

// Answer replaces the handler of requests. nil restores the handler that stores spans.
func (c *Collector) Answer(answer http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			// the server notices a closed connection only after it has read the body
			answer(w, r)
		}
		return
	}
	if err := c.take(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) take(r *http.Request) error {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var sent collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &sent); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header
	for _, of := range sent.GetResourceSpans() {
		c.resource = marks(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, read(s))
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

func read(s *tracepb.Span) Span {
	span := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(),
		Marks:  marks(s.GetAttributes()),
		Failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
		Words:  s.GetStatus().GetMessage(),
		Began:  time.Unix(0, int64(s.GetStartTimeUnixNano())),
		Ended:  time.Unix(0, int64(s.GetEndTimeUnixNano())),
	}
	for _, e := range s.GetEvents() {
		span.Events = append(span.Events, marks(e.GetAttributes()))
	}
	return span
}

func marks(pairs []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, p := range pairs {
		switch v := p.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[p.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[p.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			all[p.GetKey()] = fmt.Sprint(v.BoolValue)
		case *common.AnyValue_ArrayValue:
			for i, item := range v.ArrayValue.GetValues() {
				if i > 0 {
					all[p.GetKey()] += " "
				}
				all[p.GetKey()] += item.GetStringValue()
			}
		}
	}
	return all
}

// Spans returns the spans received up to now.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Await waits for a span for which the function returns true.
func (c *Collector) Await(t testing.TB, what string, wanted func(Span) bool) Span {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		for _, s := range c.Spans() {
			if wanted(s) {
				return s
			}
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("no span %s among %+v", what, c.Spans())
		}
	}
}

// Requests returns the number of requests, whatever their result was.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Sender describes the last sender: the attributes of its resource and its headers.
func (c *Collector) Sender() (resource map[string]string, headers http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource, c.headers
}
