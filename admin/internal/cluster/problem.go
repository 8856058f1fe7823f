package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Problem is a problem of the cluster, in one or two sentences.
type Problem struct {
	Kind     Kind       `json:"kind"`
	Severity Severity   `json:"severity"`
	Subject  string     `json:"subject,omitempty"` // the job, replica, webhook or server
	Text     string     `json:"text"`
	Link     string     `json:"link"`               // path of the page, without a prefix
	Since    *time.Time `json:"since,omitempty"`    // by the store's clock, if it is known
	AtLeast  bool       `json:"at_least,omitempty"` // it may have begun before Since
	EndedAt  *time.Time `json:"ended_at,omitempty"` // it has ended, and is shown for HoldTime
	Count    int        `json:"count,omitempty"`    // failures, waiting runs, skips or the like

	aspect string // distinguishes problems of one kind and subject
	ended  string // Text after the end
}

// Kind is the rule that found a problem.
type Kind string

// The kinds of problems, in the order in which they are listed within a severity.
const (
	KindStore       Kind = "store_unreachable"
	KindNoReplica   Kind = "no_replica"
	KindJobFailing  Kind = "job_failing"
	KindReplicaLost Kind = "replica_lost"
	KindNotReady    Kind = "replica_not_ready"
	KindClock       Kind = "clock"
	KindDraining    Kind = "replica_draining"
	KindLongWait    Kind = "long_wait"
	KindLongRun     Kind = "long_run"
	KindJobFailed   Kind = "job_failed"
	KindSkipped     Kind = "job_skipped"
	KindMissed      Kind = "misfires"
	KindGivenUp     Kind = "deliveries_given_up"
	KindUndelivered Kind = "deliveries_failing"
	KindDrift       Kind = "drift"
	KindMemcached   Kind = "memcached"
	KindDatabase    Kind = "database"
	KindSignIns     Kind = "sign_ins_slowed"
)

// Kinds returns all kinds, in the order in which they are listed.
func Kinds() []Kind {
	return []Kind{KindStore, KindNoReplica, KindJobFailing, KindReplicaLost, KindNotReady,
		KindClock, KindDraining, KindLongWait, KindLongRun, KindJobFailed, KindSkipped, KindMissed,
		KindGivenUp, KindUndelivered, KindDrift, KindMemcached, KindDatabase, KindSignIns}
}

// Label returns a noun for problems of the kind.
func (k Kind) Label() string {
	return map[Kind]string{KindStore: "Database", KindNoReplica: "No replica",
		KindJobFailing: "Job failing", KindReplicaLost: "Replica lost", KindNotReady: "Not ready",
		KindClock: "Clock", KindDraining: "Draining", KindJobFailed: "Job failed",
		KindLongWait: "Long wait", KindLongRun: "Long run", KindSkipped: "Skipped",
		KindMissed: "Misfires", KindGivenUp: "Webhook", KindUndelivered: "Webhook",
		KindDrift: "Drift", KindMemcached: "memcached", KindDatabase: "Database of jobs",
		KindSignIns: "Sign-ins"}[k]
}

// LinkText returns the text of the link to details.
func (k Kind) LinkText() string {
	switch k {
	case KindJobFailing, KindSkipped:
		return "Show job"
	case KindJobFailed:
		return "Show failures"
	case KindLongRun:
		return "Show run"
	case KindMissed:
		return "Show misfires"
	case KindDatabase:
		return "Show jobs"
	case KindLongWait:
		return "Show locks"
	case KindGivenUp, KindUndelivered:
		return "Show deliveries"
	case KindSignIns:
		return "Show audit log"
	}
	return "Show replicas"
}

// IsLoss reports whether a replica is lost and not back.
func (p Problem) IsLoss() bool { return p.Kind == KindReplicaLost && p.EndedAt == nil }

// sortProblems sorts problems: the most severe first, then by kind, then the newest first. Those
// that may have begun before Since are last, because their Since grows with each failure.
func sortProblems(problems []Problem) {
	since := func(p Problem) time.Time {
		if p.Since == nil {
			return time.Time{}
		}
		return *p.Since
	}
	bound := func(p Problem) int {
		if p.AtLeast {
			return 1
		}
		return 0
	}
	kinds := Kinds()
	slices.SortStableFunc(problems, func(a, b Problem) int {
		order := cmp.Or(b.Severity.Rank()-a.Severity.Rank(),
			slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind), bound(a)-bound(b))
		if order == 0 && !a.AtLeast {
			order = since(b).Compare(since(a))
		}
		return cmp.Or(order, strings.Compare(a.Subject, b.Subject))
	})
}
