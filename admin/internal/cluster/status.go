package cluster

import (
	"cmp"
	"time"
)

// DefaultFailingAfter is the number of failures in a row after which a job is failing, unless Rules
// say otherwise.
const DefaultFailingAfter = 3

// Rules are the limits of the status that the configuration sets.
type Rules struct {
	FailingAfter int           // failures in a row; 0 means DefaultFailingAfter
	MaxOffset    time.Duration // of a clock; 0: not checked
}

// failingAfter returns FailingAfter or its default.
func (r Rules) failingAfter() int { return cmp.Or(r.FailingAfter, DefaultFailingAfter) }

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

// ReplicaProblems returns the problems of single replicas, and of all of them together.
func (s Status) ReplicaProblems() (problems []Problem) {
	for _, p := range s.Shown() {
		if ofReplicas(p) {
			problems = append(problems, p)
		}
	}
	return problems
}

// ReplicaCount counts the live replicas: "2 of 3 live". It returns "" if the state is unknown.
func (s Status) ReplicaCount() string {
	for _, part := range s.Parts {
		if part.Link == replicasPath && part.Name == replicasName {
			return part.Text
		}
	}
	return ""
}

// NewStatus applies the rules. It depends on nothing but the evidence, and shows each problem at
// once. While the store does not answer, only that, memcached and databases of jobs are problems,
// because all else is out of date.
func NewStatus(e Evidence) Status { return (&Hold{once: true}).status(e) }

// status applies the rules. It depends on the evidence and on earlier statuses.
func (h *Hold) status(e Evidence) Status {
	v := Status{Now: e.Now}
	now, kinds := e.Now, Kinds()
	if e.StoreError != "" { // Now is that of a cached snapshot
		now, kinds = time.Now(), []Kind{KindStore, KindMemcached, KindDatabase}
	}
	v.Problems = h.apply(problems(e, now), kinds, now)
	v.Parts = statusParts(e, v.Problems)
	h.keep(v)
	return v.complete(e.ServedBy, e.SlowedSignIns)
}

// complete adds what is known about one viewer, the replica that answers, and the severity and the
// headline of all problems.
func (v Status) complete(by ServedBy, slowed []SlowedSignIns) Status {
	v.ServedBy = by
	// What one viewer may know of sign-ins is not kept for others.
	v.Problems = append(append([]Problem{}, v.Problems...), // never null
		signInProblems(slowed)...)
	sortProblems(v.Problems)
	v.Severity = Neutral
	for _, p := range v.Problems {
		v.Severity = worst(v.Severity, p.Severity)
	}
	v.Headline = headline(v.Severity, v.Problems)
	return v
}

// problems returns what the rules find, apart from sign-ins. now is the current time even if the
// evidence is old.
func problems(e Evidence, now time.Time) (found []Problem) {
	add := func(p Problem) { found = append(found, p) }
	if e.StoreError != "" {
		add(Problem{Kind: KindStore, Severity: Red, Subject: e.StoreName, Link: storePath,
			Text: e.StoreName + " does not answer. No run starts, and active runs end when their " +
				"replica cannot confirm its session.", ended: e.StoreName + " did not answer."})
	} else {
		noReplicaProblem(e, add)
		failingProblems(e, add)
		lostProblems(e, add)
		notReadyProblems(e, add)
		clockProblems(e, add)
		drainingProblems(e, add)
		failedProblems(e, add)
		waits := waitFactsOf(e)
		waitProblems(e, waits, add)
		longRunProblems(e, waits, add)
		skippedProblems(e, waits, add)
		missedProblems(e, add)
		givenUpProblems(e, add)
		undeliveredProblems(e, add)
		driftProblems(e, add)
		serverListProblems(e, add)
	}
	memcachedProblems(e, now, add)
	databaseProblems(e, add)
	return found
}

// Store returns the state of the store, or an empty part if no state is known.
func (v Status) Store() (store StatusPart) {
	if len(v.Parts) > 0 {
		store = v.Parts[0]
	}
	return store
}

// Of returns the problems of a kind.
func (v Status) Of(kind Kind) (problems []Problem) {
	for _, p := range v.Problems {
		if p.Kind == kind {
			problems = append(problems, p)
		}
	}
	return problems
}
