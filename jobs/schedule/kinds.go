package schedule

import "time"

// Cron returns the schedule of an expression with five or six fields, or a descriptor such as
// @daily.
func Cron(expression string) Spec { return Spec{Cron: expression} }

// Quartz returns the schedule of an expression as Quartz 2.3.2 reads it.
func Quartz(expression string) Spec { return Spec{Quartz: expression} }

// Every returns the schedule of an interval of whole seconds, which counts from
// 1970-01-01T00:00:00Z.
func Every(interval time.Duration) Spec { return Spec{Every: interval} }

// At returns the schedule of one time, a whole second.
func At(t time.Time) Spec { return Spec{At: t} }

// After returns the schedule of a job that is due when all of these jobs have succeeded for the
// same scheduled time.
func After(jobs ...string) Spec { return Spec{After: jobs} }

// Recurring returns the schedule that a Recurrence describes.
func Recurring(r Recurrence) Spec { return Spec{Recurrence: r} }
