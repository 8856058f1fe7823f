package pages

import "time"

// explainForm is the form that explains a firing of a job.
type explainForm struct {
	Job string
	at  []time.Time // that the page explains; none or zero: now, or no firing
}

func newExplainForm(job string, at ...time.Time) explainForm { return explainForm{job, at} }

// Value returns the time as the field has it without a script: in UTC.
func (f explainForm) Value() string {
	for _, at := range f.at {
		if !at.IsZero() {
			return at.UTC().Format("2006-01-02T15:04:05")
		}
	}
	return ""
}
