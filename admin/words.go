package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/locking"
)

// summary describes the cluster in a few sentences.
func summary(o *Overview) string {
	return replicaSummary(o.Replicas) + " " + resourceSummary(o.Resources) + " " +
		runSummary(len(o.Running), len(o.Waiting))
}

// Headline names the problems in a few words, or says that there are none.
func (o *Overview) Headline() string {
	if o.Error != "" {
		return "The store does not answer"
	}
	var parts []string
	alarms := len(o.problemsOf(Alarm))
	if alarms > 0 {
		parts = append(parts, title(plural(alarms, "alarm", "alarms"))+".")
	}
	if n := len(o.Waiting); n > 0 {
		parts = append(parts, fmt.Sprintf("%s for %s.",
			title(verb(n, "one run waits", number(n)+" runs wait, the oldest")),
			span(o.Now.Sub(since(o.Waiting[0])))))
	}
	if len(parts) > 0 {
		return strings.Join(parts, " ")
	}
	if notices := len(o.problemsOf(Notice)); notices > 0 {
		return "Healthy, with " + plural(notices, "notice", "notices") + "."
	}
	return "Healthy."
}

func (o *Overview) problemsOf(severity Severity) []Problem {
	return Status{Problems: o.Problems}.of(severity)
}

func runSummary(running, waiting int) string {
	if running == 0 && waiting == 0 {
		return "No runs are active."
	}
	text := title(plural(running, "run", "runs")) + " active, "
	if waiting == 0 {
		return text + "none waiting."
	}
	return text + number(waiting) + " waiting."
}

func replicaSummary(replicas []Replica) string {
	counts := make(map[ReplicaState]int)
	for _, r := range replicas {
		counts[r.State]++
	}
	live, late, expired := counts[ReplicaLive], counts[ReplicaLate], counts[ReplicaExpired]
	total := live + late + expired
	switch {
	case total == 0:
		return "No replica is registered."
	case total == 1 && live == 1:
		return "One replica, live."
	case total == live:
		return title(number(total)) + " replicas, all live."
	}
	parts := []string{}
	for _, part := range []struct {
		n    int
		word string
	}{{live, "live"}, {late, "late"}, {expired, "expired"}} {
		if part.n > 0 {
			parts = append(parts, number(part.n)+" "+part.word)
		}
	}
	return title(plural(total, "replica", "replicas")) + ": " + strings.Join(parts, ", ") + "."
}

func resourceSummary(resources []ResourceState) string {
	var tables, heldTables, others, heldOthers int
	for _, r := range resources {
		held := 0
		if r.State == HeldItself || r.State == HeldAbove {
			held = 1
		}
		if r.Kind == locking.KindTable {
			tables, heldTables = tables+1, heldTables+held
		} else {
			others, heldOthers = others+1, heldOthers+held
		}
	}
	text := fmt.Sprintf("%d of %s held.", heldTables, figure(tables, "table", "tables"))
	if tables == 0 {
		text = "No tables are known."
	}
	if others > 0 {
		text += fmt.Sprintf(" %d of %s held.", heldOthers,
			figure(others, "other resource", "other resources"))
	}
	return text
}

// number writes small numbers as words.
func number(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
		"ten", "eleven", "twelve"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return number(n) + " " + one
	}
	return number(n) + " " + many
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func figure(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// title capitalizes a text of this package.
func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// sentence adds a full stop.
func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// span formats a duration in two units: "42 s", "3 min 5 s", "2 h 10 min", "4 d 3 h".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0).Truncate(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, day, "d", time.Hour, "h")
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/big, bigName)
	if rest := d % big / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// took formats the duration of a run, with milliseconds if it is short.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return span(d)
}

// stateWords formats a state for people.
func stateWords(s jobs.State) string { return strings.ReplaceAll(string(s), "_", " ") }

// why describes why a run waits, did not run, or ended early. It returns "" if there is no reason.
func why(r jobs.Record) string {
	if r.Detail != "" {
		return cut(r.Detail, 400)
	}
	switch r.Reason {
	case "":
		return ""
	case jobs.ReasonLockHeld, jobs.ReasonOlderWaiter:
		return blockedWords(r.BlockedBy, "is held by")
	}
	if words, ok := reasonWords()[r.Reason]; ok {
		return words
	}
	return strings.ReplaceAll(string(r.Reason), "_", " ")
}

// whyWaits is why for a run that is listed under its blocker.
func whyWaits(r jobs.Record) string {
	switch {
	case r.BlockedBy == nil:
		return why(r)
	case r.BlockedBy.Waiting:
		return cut(withoutRuns(r.BlockedBy).Queue(), 400)
	}
	return ""
}

func blockedWords(b *jobs.Blocker, verb string) string {
	if b == nil {
		return "a resource is held"
	}
	return cut(withoutRuns(b).Words(verb), 400)
}

// withoutRuns returns the blocker without run ids, which the API has.
func withoutRuns(b *jobs.Blocker) jobs.Blocker {
	shown := *b
	shown.Holder.Run, shown.Root.Holder.Run = "", ""
	return shown
}

// holderWords names a holder without its run's id, which the API has.
func holderWords(o locking.Owner) string {
	o.Run = ""
	return locking.Holder{Owner: o}.String()
}

// offsetWords formats how far the store's clock is ahead of a replica's.
func offsetWords(milliseconds *int64) string {
	switch {
	case milliseconds == nil:
		return "–"
	case *milliseconds == 0:
		return "0 ms"
	}
	return fmt.Sprintf("%+d ms", *milliseconds)
}

// indented formats JSON for people.
func indented(text json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return string(text)
	}
	return out.String()
}

// names lists names of replicas, as many as fit on the page.
func names(list []string) string {
	const most = 20
	if len(list) == 0 {
		return "–"
	}
	shown := make([]string, 0, most)
	for _, name := range list[:min(len(list), most)] {
		shown = append(shown, cut(name, 60))
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// prefix returns the beginning of a hash.
func prefix(s string, n int) string { return s[:min(n, len(s))] }

// verdictWords formats a verdict as the beginning of a sentence.
func verdictWords(v explain.Verdict) string {
	return title(strings.ReplaceAll(string(v), "_", " "))
}

// shortReason describes a reason without the details of a run.
func shortReason(r jobs.Reason) string {
	words := map[jobs.Reason]string{jobs.ReasonLockHeld: "a resource is held",
		jobs.ReasonOlderWaiter: "an older run waits for the same"}
	if text, ok := words[r]; ok {
		return text
	}
	if text, ok := reasonWords()[r]; ok {
		return text
	}
	return strings.ReplaceAll(string(r), "_", " ")
}

// actionWords describes an action in the past tense.
func actionWords(action string) string {
	words := map[string]string{
		"pause": "paused", "resume": "resumed", "trigger": "triggered", "cancel": "cancelled",
		"release": "released", "drain": "drained",
		"undrain": "ended the drain of", "put_job": "added or changed", "remove_job": "removed",
		"deliver_again": "had delivered again",
	}
	if text, ok := words[action]; ok {
		return text
	}
	return strings.ReplaceAll(action, "_", " ")
}

func reasonWords() map[jobs.Reason]string {
	return map[jobs.Reason]string{
		jobs.ReasonOverlap:          "an earlier run of the job is still active",
		jobs.ReasonGroupFull:        "its group has reached its limit of runs",
		jobs.ReasonNoWorker:         "no worker was free",
		jobs.ReasonLocksUnavailable: "memcached did not answer, and the configuration says skip",
		jobs.ReasonMisfire:          "no replica was live to start it",
		jobs.ReasonSuperseded:       "another scheduled time of the job ran instead",
		jobs.ReasonSessionLost:      "its replica was lost or could not confirm its session",
		jobs.ReasonClaimLost:        "the run lost its claim",
		jobs.ReasonTimeout:          "the run exceeded its timeout",
		jobs.ReasonClockOff:         "its replica's clock was too far off",
		jobs.ReasonShutdown:         "its replica stopped before the run ended",
		jobs.ReasonCancelled:        "an operator cancelled it",
		jobs.ReasonPanic:            "its handler panicked",
		jobs.ReasonRetry:            "an attempt failed, the next one follows",
		jobs.ReasonPaused:           "its job, its group or all jobs were paused",
		jobs.ReasonDeadline:         "it could not start before its deadline",
		jobs.ReasonAfter:            "its dependencies have succeeded, and it waits for a replica",
		jobs.ReasonTriggered:        "waits for a replica to start it",
		jobs.ReasonReleased:         "an operator released its locks",
		jobs.ReasonJobGone:          "no replica has known its job for an hour",
	}
}
