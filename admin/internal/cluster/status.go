package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// HoldTime is how long the status shows a problem after its end, so that it does not flicker.
const HoldTime = time.Minute

// DefaultFailingAfter is the number of failures in a row after which a job is failing, unless Rules
// say otherwise.
const DefaultFailingAfter = 3

// Rules are the limits of the status that the configuration sets.
type Rules struct {
	FailingAfter int           // failures in a row; 0 means DefaultFailingAfter
	MaxOffset    time.Duration // of a clock; 0: not checked
}

// Evidence is all that the status depends on.
type Evidence struct {
	Snapshot
	StoreName  string // for people
	StoreError string // why the store did not answer; "" if it did
	ServedBy   ServedBy
	Memcached  *MemcachedView // nil without memcached
	Databases  []JobDatabase  // of jobs, by name, as the replica that answers sees them
	Rules      Rules
	// SlowedSignIns are users whose sign-ins are slowed, as far as the viewer may know them.
	SlowedSignIns []SlowedSignIns
}

// SlowedSignIns says that the sign-ins of a user are slowed.
type SlowedSignIns struct {
	User     string
	Failures int
	Since    time.Duration // since the first failure
}

// Status is the status of the cluster by the rules in docs/operations.md.
type Status struct {
	Severity Severity     `json:"severity"` // that of the worst problem
	Headline string       `json:"headline"`
	Now      time.Time    `json:"now,omitzero"` // by the store's clock; absent if it is unknown
	Problems []Problem    `json:"problems"`     // the most severe first
	Parts    []StatusPart `json:"parts"`
	ServedBy ServedBy     `json:"-"`
}

// shownProblems is the number of problems that the overview lists.
const shownProblems = 12

// Shown returns the problems that the overview lists.
func (s Status) Shown() []Problem { return s.Problems[:min(len(s.Problems), shownProblems)] }

// More returns the number of problems that the overview does not list.
func (s Status) More() int { return len(s.Problems) - len(s.Shown()) }

// NewStatus applies the rules. It depends on nothing but the evidence. While the store does not
// answer, only that, memcached and databases of jobs are problems, because all else is out of date.
func NewStatus(e Evidence) Status {
	v := Status{Severity: Neutral, Now: e.Now, Problems: []Problem{}, ServedBy: e.ServedBy,
		Parts: statusParts(e)}
	add := func(p Problem) { v.Problems = append(v.Problems, p) }
	if e.StoreError != "" {
		add(Problem{Kind: KindStore, Severity: Red, Subject: e.StoreName, Link: storePath,
			Text: e.StoreName + " does not answer. No run starts, and active runs end when their " +
				"replica cannot confirm its session."})
	} else {
		noReplicaProblem(e, add)
		failingProblems(e, add)
		lostProblems(e, add)
		notReadyProblems(e, add)
		clockProblems(e, add)
		drainingProblems(e, add)
		waitProblems(e, add)
		deliveryProblems(e, add)
		driftProblems(e, add)
		serverListProblems(e, add)
	}
	memcachedProblems(e, add)
	databaseProblems(e, add)
	signInProblems(e, add)
	sortProblems(v.Problems)
	for _, p := range v.Problems {
		v.Severity = worst(v.Severity, p.Severity)
	}
	v.Headline = headline(v.Severity, v.Problems)
	return v
}

// Store returns the state of the store, or an empty part if no state is known.
func (v Status) Store() (store StatusPart) {
	if len(v.Parts) > 0 {
		store = v.Parts[0]
	}
	return store
}

// Of returns the problems of a kind.
func (v Status) Of(kind Kind) []Problem {
	return slices.DeleteFunc(slices.Clone(v.Problems),
		func(p Problem) bool { return p.Kind != kind })
}

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
			words.Figure(more, "other problem", "other problems")
	}
	return words.Title(text)
}

// phrase describes problems of one kind in a few words.
func phrase(problems []Problem) string {
	n := len(problems)
	count := func(one, many string) string {
		return fmt.Sprintf("%d %s", n, words.Verb(n, one, many))
	}
	ended := !slices.ContainsFunc(problems, func(p Problem) bool { return p.EndedAt == nil })
	switch kind := problems[0].Kind; {
	case kind == KindStore:
		return problems[0].Subject + " does not answer"
	case kind == KindNoReplica:
		return "no replica can start runs"
	case kind == KindJobFailing && ended:
		return count("job failed repeatedly", "jobs failed repeatedly")
	case kind == KindJobFailing:
		return count("job fails repeatedly", "jobs fail repeatedly")
	case kind == KindReplicaLost && ended:
		return count("replica was lost", "replicas were lost")
	case kind == KindReplicaLost:
		return count("replica is lost", "replicas are lost")
	case kind == KindNotReady:
		return count("replica cannot start runs", "replicas cannot start runs")
	case kind == KindClock:
		return count("clock is off", "clocks are off")
	case kind == KindDraining:
		return count("replica is draining", "replicas are draining")
	case kind == KindLongWait:
		return "runs wait longer than usual"
	case kind == KindDeliveries:
		return "webhook deliveries were given up"
	case kind == KindDrift:
		return "configurations of replicas differ"
	case kind == KindDatabase:
		return count("database of jobs is not available", "databases of jobs are not available")
	case kind == KindSignIns:
		return "sign-ins fail"
	}
	return "memcached needs attention"
}
