package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// maxKinds is the number of kinds of problems that a headline names.
const maxKinds = 2

// headline names the problems with the severity of the status.
func headline(severity Severity, problems []Problem) string {
	if severity == Neutral {
		return "Healthy"
	}
	var parts []string
	var kinds []Kind
	for _, p := range problems {
		if p.Severity != severity || slices.Contains(kinds, p.Kind) {
			continue
		}
		if kinds = append(kinds, p.Kind); len(kinds) > maxKinds {
			continue
		}
		parts = append(parts, phrase(slices.DeleteFunc(slices.Clone(problems),
			func(other Problem) bool {
				return other.Kind != p.Kind || other.Severity != severity
			})))
	}
	text := strings.Join(parts, " and ")
	if more := len(kinds) - maxKinds; more > 0 {
		text = strings.Join(parts, ", ") + " and " +
			words.PlainFigure(more, "other problem", "other problems")
	}
	return words.Title(text)
}

// phrase describes problems of one kind in a few words, in the past tense if all have ended.
func phrase(problems []Problem) string {
	first, n := problems[0], len(problems)
	if first.Kind == KindJobFailed { // one problem of several jobs
		n = first.Count
	}
	now, past := phrases(first.Kind, n)
	text := now
	if !slices.ContainsFunc(problems, func(p Problem) bool { return p.EndedAt == nil }) {
		text = past
	}
	return strings.NewReplacer("#", fmt.Sprint(n), "STORE", first.Subject).Replace(text)
}

// phrases describes n active and n ended problems of a kind. STORE stands for the store, and # for
// n.
func phrases(kind Kind, n int) (now, past string) {
	replicas, are, were := words.Verb(n, "# replica", "# replicas"), words.Verb(n, "is", "are"),
		words.Verb(n, "was", "were")
	switch kind {
	case KindStore:
		return "STORE does not answer", "STORE did not answer"
	case KindNoReplica:
		return "no replica can start runs", "no replica could start runs"
	case KindJobFailing:
		return words.Verb(n, "# job fails repeatedly", "# jobs fail repeatedly"),
			words.Verb(n, "# job failed repeatedly", "# jobs failed repeatedly")
	case KindReplicaLost:
		return replicas + " " + are + " lost", replicas + " " + were + " lost"
	case KindNotReady:
		return replicas + " cannot start runs", replicas + " could not start runs"
	case KindClock:
		clocks := words.Verb(n, "# clock", "# clocks")
		return clocks + " " + are + " off", clocks + " " + were + " off"
	case KindDraining:
		return replicas + " " + are + " draining", replicas + " " + were + " draining"
	case KindJobFailed:
		failed := words.Verb(n, "# job failed in its last run", "# jobs failed in their last runs")
		return failed, strings.Replace(failed, "failed", "had failed", 1)
	case KindLongRun:
		return words.Verb(n, "# run takes", "# runs take") + " longer than usual",
			words.Verb(n, "# run", "# runs") + " took longer than usual"
	case KindSkipped:
		return words.Verb(n, "# job is", "# jobs are") + " skipped repeatedly",
			words.Verb(n, "# job was", "# jobs were") + " skipped repeatedly"
	case KindMissed:
		return "firings were missed", "firings were missed earlier"
	case KindLongWait:
		return "runs wait longer than usual", "runs waited longer than usual"
	case KindGivenUp:
		return "webhook deliveries were given up", "webhook deliveries were given up earlier"
	case KindUndelivered:
		return "webhook deliveries fail", "webhook deliveries failed"
	case KindDrift:
		return "configurations of replicas differ", "configurations of replicas differed"
	case KindDatabase:
		databases := words.Verb(n, "# database of jobs", "# databases of jobs")
		return databases + " " + are + " not available", databases + " " + were + " not available"
	case KindSignIns:
		return "sign-ins fail", "sign-ins failed"
	}
	return "memcached needs attention", "memcached needed attention"
}
