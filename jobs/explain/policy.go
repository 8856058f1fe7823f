package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/retry"
)

// Policy is a policy of a job in words.
type Policy struct {
	Key  string `json:"key"`  // of the job in the configuration, such as misfire.paused
	Name string `json:"name"` // such as Held lock
	Text string `json:"text"` // a sentence
}

// Policies describes the policies of a job, each in one sentence.
func Policies(job *jobs.Job) []Policy {
	policies := []Policy{
		{"overlap", "Overlap", overlapWords(job.Overlap)},
		{"wait", "Held lock", waitWords(job)},
		{"wait.reserve", "Reservation", reserveWords(job.ReserveTime())},
		{"retry", "Failure", retryWords(job.Retry)},
		{"timeout", "Timeout", timeoutWords(job.Timeout)},
		{"recover", "Lost replica", recoverWords(job.Recover)},
		{"deadline", "Deadline", deadlineWords(job.Deadline)},
		{"misfire_threshold", "Late start", fmt.Sprintf(
			"A firing that no replica has started after %s is a misfire.",
			lengthOf(job.MisfireThreshold))},
		{"misfire.no_replica", "No replica", misfireWords(job, reasons.Misfire,
			"while no replica was up")},
		{"misfire.no_worker", "No free worker", misfireWords(job, reasons.NoWorker,
			"that no live replica could start")},
		{"misfire.paused", "Pause", misfireWords(job, reasons.Paused, "during a pause")},
	}
	if job.Group != "" {
		policies = append(policies, Policy{"group", "Group", groupWords(job)})
	}
	if jitter := job.Schedule.MaxDelay(); jitter > 0 {
		policies = append(policies, Policy{"jitter", "Jitter", fmt.Sprintf(
			"A firing starts up to %s after its scheduled time.", lengthOf(jitter))})
	}
	return policies
}

func overlapWords(o jobs.Overlap) string {
	switch o {
	case jobs.OverlapQueue:
		return "One firing waits for the end of an active run, and further firings are skipped."
	case jobs.OverlapAllow:
		return "Runs of the job may run at the same time."
	}
	return "A firing is skipped while an earlier run of the job is active."
}

// waitWords describes the tries to get a lock, and what follows them.
func waitWords(job *jobs.Job) string {
	const forever = 100 * 365 * 24 * time.Hour
	longest := job.Wait.Longest(forever)
	then := "is skipped"
	switch job.MisfirePolicy(reasons.LockHeld) {
	case jobs.MisfireRunOnce:
		then = "waits until the next scheduled time"
	case jobs.MisfireRunAll:
		then = "waits for " + count(job.LateLimit(), "further scheduled time",
			"further scheduled times")
	}
	tries := "tries until the next scheduled time"
	switch {
	case job.Wait.Attempts == 1 || longest <= 0:
		return fmt.Sprintf("A firing whose lock is held %s.", then)
	case job.Wait.Attempts > 1:
		tries = fmt.Sprintf("tries %d times in %s", job.Wait.Attempts, lengthOf(longest))
	case longest < forever:
		tries = "tries for " + lengthOf(longest)
	}
	return fmt.Sprintf("A firing %s to get a held lock, and then %s.", tries, then)
}

func reserveWords(d time.Duration) string {
	if d <= 0 {
		return "Younger firings of other jobs may pass a waiting firing at once."
	}
	return fmt.Sprintf("Younger firings of other jobs cannot pass a waiting firing for the "+
		"first %s.", lengthOf(d))
}

func retryWords(p retry.Policy) string {
	if p.Attempts == 1 || p.Attempts <= 0 && p.Elapsed == 0 {
		return "A run is not repeated after an error."
	}
	text := "A run has any number of attempts"
	if p.Attempts > 1 {
		text = fmt.Sprintf("A run has up to %d attempts", p.Attempts)
	}
	limits := []string{delayWords(p)}
	if p.Jitter > 0 {
		limits = append(limits, fmt.Sprintf("up to %s%% less at random",
			strconv.FormatFloat(100*p.Jitter, 'f', -1, 64)))
	}
	if p.Elapsed > 0 {
		limits = append(limits, "none later than "+lengthOf(p.Elapsed)+" after the first")
	}
	return text + ", " + strings.Join(limits, ", ") + "."
}

func delayWords(p retry.Policy) string {
	// without jitter and the limits of attempts
	first, _ := retry.Policy{Attempts: 2, Delay: p.Delay, MaxDelay: p.MaxDelay,
		Backoff: p.Backoff}.After(1, 0)
	length, limited := lengthOf(first), p.MaxDelay > 0 && first >= p.MaxDelay
	switch {
	case p.Backoff == retry.ReverseExponential && limited:
		return "at most " + length + " apart"
	case p.Backoff == retry.ReverseExponential:
		return length + " apart at first, with decreasing delays"
	case p.Backoff == retry.Exponential && p.MaxDelay == 0:
		return length + " apart at first, doubling"
	case p.Backoff == retry.Exponential && !limited:
		return length + " apart at first, doubling up to " + lengthOf(p.MaxDelay)
	}
	return length + " apart"
}

func timeoutWords(d time.Duration) string {
	if d == 0 {
		return "An attempt has no time limit."
	}
	return fmt.Sprintf("An attempt is ended after %s.", lengthOf(d))
}

func recoverWords(recovers bool) string {
	if recovers {
		return "A lost run is repeated, at most three times."
	}
	return "A lost run is not repeated."
}

func deadlineWords(d time.Duration) string {
	if d == 0 {
		return "A firing may begin at any time after its scheduled time."
	}
	return fmt.Sprintf("A firing that has not begun %s after its scheduled time is skipped.",
		lengthOf(d))
}

// misfireWords describes what happens to the misfires of a cause.
func misfireWords(job *jobs.Job, cause jobs.Reason, when string) string {
	text, age := "The latest misfire "+when+" runs late", "if it is"
	switch job.MisfirePolicy(cause) {
	case jobs.MisfireSkip:
		return fmt.Sprintf("Misfires %s do not run.", when)
	case jobs.MisfireRunAll:
		if n := job.LateLimit(); n > 1 {
			text, age = fmt.Sprintf("The %d latest misfires %s run late", n, when), "if they are"
		}
	}
	if limit := job.MisfireBy.MaxAge; limit > 0 {
		text += ", " + age + " at most " + lengthOf(limit) + " old"
	}
	return text + "."
}

func groupWords(job *jobs.Job) string {
	limits := job.GroupLimits
	var most []string
	if limits.PerCluster > 0 {
		most = append(most, count(limits.PerCluster, "run", "runs")+" in the cluster")
	}
	if limits.PerReplica > 0 {
		most = append(most, count(limits.PerReplica, "run", "runs")+" on each replica")
	}
	if len(most) == 0 {
		return fmt.Sprintf("The group %s has no limit of runs.", job.Group)
	}
	return fmt.Sprintf("The group %s has at most %s.", job.Group, strings.Join(most, " and "))
}

// count writes a number with the singular or the plural of a noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "one " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// lengthOf formats a duration: 7.5 s, 1 h 30 min.
func lengthOf(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	units := []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}}
	var parts []string
	for _, u := range units {
		if n := d / u.length; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			d -= n * u.length
		}
	}
	if d > 0 {
		parts = append(parts, strconv.FormatFloat(d.Seconds(), 'f', -1, 64)+" s")
	}
	return strings.Join(parts, " ")
}
