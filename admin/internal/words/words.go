package words

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// State formats a state for people.
func State(s jobs.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// CountsByState lists numbers of runs without zeros: "120 succeeded", "2 failed".
func CountsByState(runs map[jobs.State]int) (texts []string) {
	for _, state := range jobs.States() {
		if n := runs[state]; n > 0 {
			texts = append(texts, Count(n)+" "+State(state))
		}
	}
	return texts
}

// Why describes why a run waits, did not run, or ended early. It returns "" if there is no reason.
func Why(r storage.Record) string {
	if r.Detail != "" {
		return Cut(Readable(r.Detail), 400)
	}
	switch r.Reason {
	case "":
		return ""
	case reasons.LockHeld, reasons.OlderWaiter:
		if r.State.Final() {
			return Blocked(r.BlockedBy, "was held by")
		}
		return Blocked(r.BlockedBy, "is held by")
	}
	if words, ok := reasonWords[r.Reason]; ok {
		return words
	}
	return strings.ReplaceAll(string(r.Reason), "_", " ")
}

// WhyWaits is why for a run that is listed under its blocker.
func WhyWaits(r storage.Record) string {
	switch {
	case r.BlockedBy == nil:
		return Why(r)
	case r.BlockedBy.Waiting:
		return Cut(withoutRuns(r.BlockedBy).Queue(), 400)
	}
	return ""
}

// Behind names the job of a blocker, after a comma. It returns "" for a program.
func Behind(b jobs.Blocker) string {
	switch {
	case b.Holder.Job == "":
		return ""
	case b.Waiting:
		return ", queued behind " + Cut(b.Holder.Job, 200)
	}
	return ", held by " + Cut(b.Holder.Job, 200)
}

// Blocked describes a blocker. The verb follows the name of the resource: "is held by".
func Blocked(b *jobs.Blocker, verb string) string {
	if b == nil {
		return "a resource is held"
	}
	return Cut(withoutRuns(b).Words(verb), 400)
}

// withoutRuns returns the blocker without run ids, which the API has.
func withoutRuns(b *jobs.Blocker) jobs.Blocker {
	shown := *b
	shown.Holder.Run, shown.Root.Holder.Run = "", ""
	return shown
}

// Holder names a holder without its run's id, which the API has.
func Holder(o locking.Owner) string {
	o.Run = ""
	return locking.Holder{Owner: o}.String()
}

// Offset formats how far the store's clock is ahead of a replica's.
func Offset(milliseconds *int64) string {
	switch {
	case milliseconds == nil:
		return "–"
	case *milliseconds == 0:
		return "0 ms"
	}
	return fmt.Sprintf("%+d ms", *milliseconds)
}

// Verdict formats a verdict as the beginning of a sentence.
func Verdict(v explain.Verdict) string {
	return Title(strings.ReplaceAll(string(v), "_", " "))
}

// ShortReason describes a reason without the details of a run.
func ShortReason(r jobs.Reason) string {
	switch r {
	case reasons.LockHeld:
		return "a resource is held"
	case reasons.OlderWaiter:
		return "an older run waits for the same resource"
	}
	if text, ok := reasonWords[r]; ok {
		return text
	}
	return strings.ReplaceAll(string(r), "_", " ")
}

// Action describes an action in the past tense.
func Action(action string) string {
	words := map[string]string{
		"pause": "paused", "resume": "resumed", "trigger": "triggered", "cancel": "cancelled",
		"release": "released", "drain": "drained",
		"undrain": "ended the drain of", "remove_replica": "removed",
		"put_job": "added or changed", "remove_job": "removed",
		"deliver_again": "requested another delivery of",
		"backfill":      "added a backfill of", "cancel_backfill": "cancelled",
		storage.AuditSignIn: "signed in to the", storage.AuditSignOut: "signed out of the",
		storage.AuditSignInRefused: "failed to sign in to the",
		storage.AuditRefused:       "had no permission on",
		storage.AuditReload:        "reloaded the configuration of",
		storage.AuditReloadRefused: "failed to reload the configuration of",
		storage.AuditRaiseTokens:   "raised the fencing tokens of the",
	}
	if text, ok := words[action]; ok {
		return text
	}
	return strings.ReplaceAll(action, "_", " ")
}

// reasonWords describe the reasons that need no details of a run. Nobody changes them.
var reasonWords = map[jobs.Reason]string{
	reasons.Overlap:          "an earlier run of the job is still active",
	reasons.GroupFull:        "its group has reached its limit of runs",
	reasons.NoWorker:         "no worker was free, or no live replica could start it",
	reasons.LocksUnavailable: "memcached did not answer, and locking.when_unavailable is skip",
	reasons.Misfire:          "no replica was live to start it",
	reasons.Superseded:       "another firing of the job ran instead",
	reasons.SessionLost:      "its replica was lost or could not confirm its session",
	reasons.ClaimLost:        "the run lost its claim",
	reasons.Timeout:          "the run exceeded its timeout",
	reasons.ClockOff:         "its replica's clock was too far off",
	reasons.Shutdown:         "its replica stopped before the run ended",
	reasons.Cancelled:        "an operator cancelled it",
	reasons.Panic:            "its handler panicked",
	reasons.Retry:            "an attempt failed, the next one follows",
	reasons.Paused:           "its job, its group or all jobs were paused",
	reasons.Deadline:         "it could not start before its deadline",
	reasons.After:            "its dependencies have succeeded, and it waits for a replica",
	reasons.Backfill:         "a backfill added it, and it waits for a replica",
	reasons.Triggered:        "it was triggered, and it waits for a replica",
	reasons.Released:         "an operator released its locks",
	reasons.JobGone:          "no replica has known its job for an hour",
	reasons.DatabaseUnavailable: "the database with the tables of the job did not answer, or " +
		"has no fence",
}
