package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Severity is how urgent a problem is.
type Severity string

// The severities.
const (
	Alarm  Severity = "alarm"  // something that should run does not
	Notice Severity = "notice" // everything runs, but needs attention
)

// Problem is a problem of the cluster, in one or two sentences.
type Problem struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
}

// mood returns the severity as a CSS class.
func (p Problem) mood() string { return string(p.Severity) }

// Problems lists the problems of the cluster, worst first. Waiting runs have a section of their
// own.
func Problems(o *Overview) []Problem {
	found := []Problem{}
	add := func(severity Severity, format string, args ...any) {
		found = append(found, Problem{severity, fmt.Sprintf(format, args...)})
	}
	if !o.ServedBy.Ready {
		add(Alarm, "This replica, %s, cannot start runs: %s", o.ServedBy.Replica,
			words.Sentence(o.ServedBy.NotReady))
	}
	if !o.Now.IsZero() {
		replicaProblems(o, add)
		notReadyProblems(o, add)
		serverListProblems(o, add)
		driftProblems(o, add)
		lockProblems(o, add)
		memcachedProblems(o, add)
	}
	slices.SortStableFunc(found, func(a, b Problem) int {
		return strings.Compare(string(a.Severity), string(b.Severity))
	})
	return found
}

func replicaProblems(o *Overview, add func(Severity, string, ...any)) {
	live := make(map[string]bool)
	versions := make(map[string]bool)
	for _, r := range o.Replicas {
		if r.Live() {
			live[r.Name], versions[r.Version] = true, true
		}
	}
	if len(live) == 0 {
		add(Alarm, "No replica is live. Nothing starts.")
	}
	for _, r := range o.Replicas {
		switch {
		case r.State == ReplicaExpired:
			add(Alarm, "%s has expired: its last heartbeat was %s ago. "+
				"The next sweep releases its locks.",
				r.Name, words.Span(o.Now.Sub(r.LastBeat)))
		case r.State == ReplicaLate:
			add(Notice, "%s is late: its last heartbeat was %s ago. Its session expires in %s.",
				r.Name, words.Span(o.Now.Sub(r.LastBeat)), words.Span(r.ExpiresAt.Sub(o.Now)))
		case r.State == ReplicaLost && !live[r.Name]:
			add(Notice, "%s was lost %s ago and is not back. Its runs are recorded as lost.",
				r.Name,
				words.Span(o.Now.Sub(*r.EndedAt)))
			live[r.Name] = true // report each name once
		}
	}
	if len(versions) > 1 {
		add(Notice, "The replicas run %s different versions.", words.Number(len(versions)))
	}
}

func lockProblems(o *Overview, add func(Severity, string, ...any)) {
	if o.advisory != nil && !o.Memcached.unreachable() {
		add(Notice, "memcached did not answer: %s Locks rely on the store alone.",
			words.Sentence(words.OneLine(o.advisory.Error(), 200)))
	}
	missing := 0
	for _, r := range o.Resources {
		if r.State != locks.HeldItself {
			continue
		}
		for _, lock := range r.Locks {
			switch {
			case !o.Now.Before(lock.ExpiresAt):
				add(Alarm, "%s is still held by job %s on %s, whose session expired %s ago. The "+
					"next sweep releases it.",
					lock.Resource, lock.Holder.Job, lock.Holder.Replica,
					words.Span(o.Now.Sub(lock.ExpiresAt)))
			case lock.Advisory == locks.AdvisoryOther:
				add(Notice, "%s: memcached names %s. The store decides: job %s on %s holds it.",
					lock.Resource, lock.OtherHolder(), lock.Holder.Job,
					lock.Holder.Replica)
			case lock.Advisory == locks.AdvisoryMissing:
				missing++
			}
		}
	}
	if missing > 0 {
		add(Notice, "memcached has lost %s. Locks rely on the store; holders add them again.",
			words.Plural(missing, "lock", "locks"))
	}
}
