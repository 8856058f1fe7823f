package holdfasttest

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Attempt is the result of one call of a handler by [Work].
type Attempt struct {
	// State is the state in which the run ends if this is its last attempt: succeeded, failed,
	// timed_out, cancelled or lost.
	State  jobs.State
	Reason jobs.Reason
	Detail string // the reason in words
	Err    error  // of the handler; a *jobs.PanicError if it panicked
	Output string // what it wrote and logged

	Result json.RawMessage // the last one that it set; nil: none
	// Saved is the state for the job's next run; nil: none. A state of run.Save counts only if the
	// handler succeeded. A state of postgres.SaveInTx or sqlite.SaveInTx counts if its transaction
	// committed.
	Saved json.RawMessage
	// Commits is how many of its fenced transactions have committed.
	Commits int
	// CompletedInTx says that a fenced transaction recorded the success of the run: effects and
	// success were one commit.
	CompletedInTx bool

	t   testing.TB
	job string
}

// Expect fails the test unless the attempt has ended in the state, and with one of the reasons if
// any are given. It returns the attempt.
func (a *Attempt) Expect(want jobs.State, reasons ...jobs.Reason) *Attempt {
	a.t.Helper()
	got := outcome{a.State, a.Reason, a.Detail, ""}
	if a.Err != nil {
		got.err = a.Err.Error()
	}
	if !got.is(want, reasons) {
		a.t.Errorf("attempt of job %q: got %s, want %s%s", a.job, got, wanted(want, reasons),
			quoted(a.Output))
	}
	return a
}

// DecodeResult decodes the result of the handler into the value that target points to. It fails the
// test if there is none.
func (a *Attempt) DecodeResult(target any) *Attempt {
	a.t.Helper()
	a.decode("result", a.Result, target)
	return a
}

// DecodeSaved decodes the state for the job's next run into the value that target points to. It
// fails the test if there is none.
func (a *Attempt) DecodeSaved(target any) *Attempt {
	a.t.Helper()
	a.decode("saved state", a.Saved, target)
	return a
}

func (a *Attempt) decode(what string, raw json.RawMessage, target any) {
	a.t.Helper()
	if raw == nil {
		a.t.Fatalf("attempt of job %q: got no %s, want one", a.job, what)
	}
	if err := json.Unmarshal(raw, target); err != nil {
		a.t.Fatalf("attempt of job %q: decode %s %s: %v", a.job, what, raw, err)
	}
}
