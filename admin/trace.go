package admin

import (
	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Trace locates the spans of a run.
type Trace = page.Trace

// RunDetail is a run with its attempts: the API's answer for a single run.
type RunDetail struct {
	storage.Record
	// Attempts are without output, the oldest first: at most the last 101.
	Attempts []storage.RunAttempt `json:"attempts"`
	TraceID  string               `json:"trace_id,omitempty"`
}

// traceOf returns the trace of a run. A run that no replica started has none.
func (s runPages) traceOf(run storage.Record) Trace {
	if s.options.Trace == nil || run.Replica == "" || run.State == jobs.Missed {
		return Trace{}
	}
	return s.options.Trace(run.ID)
}
