package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The page with details of replicas, and its parts.
const (
	replicasPath  = "/replicas"
	storePath     = replicasPath + "#store"
	memcachedPath = replicasPath + "#memcached"
	databasesPath = replicasPath + "#databases"
)

// noReplicaProblem reports that no replica can start runs.
func noReplicaProblem(e Evidence, add func(Problem)) {
	live := 0
	for _, r := range e.Replicas {
		if !r.Live() {
			continue
		}
		if live++; r.StartsRuns() {
			return
		}
	}
	p := Problem{Kind: KindNoReplica, Severity: Red, Link: replicasPath,
		Text: "No replica is live. No run starts.", ended: "No replica could start runs."}
	if live > 0 {
		p.Text = "Every live replica is draining or cannot start runs. No run starts."
	}
	add(p)
}

// lostProblems reports replicas whose sessions expired. The problem of a replica that is back has
// ended.
func lostProblems(e Evidence, add func(Problem)) {
	latest := make(map[string]Replica) // the latest session of each name
	lost := make(map[string]Replica)   // the latest lost session of each name
	for _, r := range e.Replicas {
		if last, known := latest[r.Name]; !known || r.StartedAt.After(last.StartedAt) {
			latest[r.Name] = r
		}
		if last, known := lost[r.Name]; r.Lost() && (!known || r.StartedAt.After(last.StartedAt)) {
			lost[r.Name] = r
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		r, last := lost[name], latest[name]
		p := Problem{Kind: KindReplicaLost, Severity: Amber, Subject: name, Link: replicasPath,
			Since: &r.ExpiresAt, ended: "Replica " + name + " was lost."}
		switch {
		case last.Session == r.Session && r.State == ReplicaExpired:
			p.Text = "Replica " + name + " sends no heartbeats. The next sweep records its runs " +
				"as lost and releases its locks."
		case last.Session == r.Session:
			p.Text = "Replica " + name + " is lost and not back. Its runs are recorded as lost."
		case last.Live():
			p.Text, p.EndedAt = "Replica "+name+" was lost and is back.", &last.StartedAt
		default:
			continue
		}
		add(p)
	}
}

// notReadyProblems reports live replicas that cannot start runs. Replicas that drain, or whose
// clock is off, have problems of their own.
func notReadyProblems(e Evidence, add func(Problem)) {
	served := false
	for _, r := range e.Replicas {
		if !r.Live() {
			continue
		}
		if r.Session.String() == e.ServedBy.Session {
			served = true
		}
		if r.NotReady == "" || r.Draining || e.clockIsOff(r) {
			continue
		}
		add(notReady(r.Name, r.NotReady))
	}
	if !served && !e.ServedBy.Ready {
		add(notReady(e.ServedBy.Replica, e.ServedBy.NotReady))
	}
}

func notReady(name, why string) Problem {
	why = words.Sentence(words.OneLine(why, 300))
	return Problem{Kind: KindNotReady, Severity: Amber, Subject: name, Link: replicasPath,
		Text:  "Replica " + name + " cannot start runs: " + why,
		ended: "Replica " + name + " could not start runs: " + why}
}

// clockIsOff reports whether the clock of the replica differs too much from the store's.
func (e Evidence) clockIsOff(r Replica) bool {
	if r.ClockOffset == nil || e.Rules.MaxOffset == 0 {
		return false
	}
	offset := time.Duration(*r.ClockOffset) * time.Millisecond
	return offset.Abs() > e.Rules.MaxOffset
}

func clockProblems(e Evidence, add func(Problem)) {
	for _, r := range e.Replicas {
		if r.Live() && e.clockIsOff(r) {
			offset := (time.Duration(*r.ClockOffset) * time.Millisecond).Abs()
			add(Problem{Kind: KindClock, Severity: Amber, Subject: r.Name, Link: replicasPath,
				Text: fmt.Sprintf("The clock of replica %s is %s off. The replica starts no runs "+
					"while the offset is more than %s.", r.Name, offset, e.Rules.MaxOffset),
				ended: fmt.Sprintf("The clock of replica %s was %s off.", r.Name, offset)})
		}
	}
}

func drainingProblems(e Evidence, add func(Problem)) {
	for _, r := range e.Replicas {
		if r.Live() && r.Draining {
			add(Problem{Kind: KindDraining, Severity: Amber, Subject: r.Name, Link: replicasPath,
				Text:  "Replica " + r.Name + " is draining. It starts no new runs.",
				ended: "Replica " + r.Name + " was draining."})
		}
	}
}

// signInProblems reports users whose sign-ins are slowed.
func signInProblems(e Evidence, add func(Problem)) {
	for _, s := range e.SlowedSignIns {
		add(Problem{Kind: KindSignIns, Severity: Amber, Subject: s.User, Link: "/audit",
			Count: s.Failures,
			Text: fmt.Sprintf("%s as user %s failed within %s. Sign-ins as this user are slowed, "+
				"except in known browsers.",
				words.Title(words.Plural(s.Failures, "sign-in", "sign-ins")), s.User,
				words.Span(s.Since))})
	}
}

// deliveryProblems reports deliveries that were given up, by webhook.
func deliveryProblems(e Evidence, add func(Problem)) {
	counts := make(map[string]int)
	since := make(map[string]time.Time)
	for _, u := range e.GivenUp {
		counts[u.Webhook]++
		if at := since[u.Webhook]; at.IsZero() || u.GaveUpAt.Before(at) {
			since[u.Webhook] = u.GaveUpAt.UTC()
		}
	}
	for _, webhook := range slices.Sorted(maps.Keys(counts)) {
		at, n := since[webhook], counts[webhook]
		many := words.Figure(n, "delivery", "deliveries")
		if len(e.GivenUp) == maxGivenUp {
			many = "at least " + many
		}
		add(Problem{Kind: KindDeliveries, Severity: Amber, Subject: webhook,
			Link: "/webhooks?given_up=yes", Since: &at, Count: n,
			Text: words.Title(many) + " of webhook " + words.Cut(webhook, 100) + " " +
				words.Verb(n, "was", "were") + " given up in the last 24 h.",
			ended: "Webhook " + words.Cut(webhook, 100) + " had deliveries that were given up."})
	}
}

// driftProblems reports live replicas with different cron tables or versions, unless a deploy seems
// to be under way.
func driftProblems(e Evidence, add func(Problem)) {
	if e.deploying() {
		return
	}
	versions := make(map[string]bool)
	for _, r := range e.Replicas {
		if r.Live() {
			versions[r.Version] = true
		}
	}
	p := Problem{Kind: KindDrift, Severity: Amber, Link: replicasPath}
	if len(versions) > 1 {
		p.Text = "The replicas run " + words.Number(len(versions)) + " different versions."
		p.aspect, p.ended = "versions", "The replicas ran different versions."
		add(p)
	}
	different := cronTables(e.Replicas)
	if len(different) < 2 {
		return
	}
	p.aspect, p.ended = "jobs", "The replicas had different cron tables."
	p.Text = fmt.Sprintf("The replicas have %s different cron tables (%s). Replicas with the "+
		"newest definition of a job fire it.%s", words.Number(len(different)), groupsOf(different),
		driftWords(e.Drift))
	add(p)
}

// deploying reports whether a replica has started so lately that differences count as a deploy.
func (e Evidence) deploying() bool {
	return slices.ContainsFunc(e.Replicas, func(r Replica) bool {
		return r.Live() && e.Now.Sub(r.StartedAt) < deployTime
	})
}

// groupsOf lists groups of replicas with the same value.
func groupsOf(names map[string][]string) string {
	var groups []string
	for _, group := range names {
		groups = append(groups, strings.Join(group, ", "))
	}
	slices.Sort(groups)
	return strings.Join(groups, " / ")
}

// driftWords describes jobs whose definitions differ, at most maxDrifted of them.
func driftWords(drift []storage.JobDrift) string {
	var text strings.Builder
	for _, job := range drift[:min(len(drift), maxDrifted)] {
		text.WriteString(" " + job.String() + ".")
	}
	if more := len(drift) - maxDrifted; more > 0 {
		text.WriteString(" And " + words.Plural(more, "job", "jobs") + " more.")
	}
	return text.String()
}
