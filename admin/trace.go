package admin

import "github.com/holdfast-dev/holdfast/jobs"

// Trace is where the spans of a run are.
type Trace struct {
	ID   string // "" where there is none
	Link string // where people see it; "" where that is not known
}

// tracedRun is a run as the API has it alone.
type tracedRun struct {
	jobs.Record
	TraceID string `json:"trace_id,omitempty"`
}

// traceOf returns the trace of a run. One that no replica took up has none.
func (s *Server) traceOf(run jobs.Record) Trace {
	if s.options.Trace == nil || run.Replica == "" || run.State == jobs.Missed {
		return Trace{}
	}
	return s.options.Trace(run.ID)
}
