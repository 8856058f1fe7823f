package cluster

import (
	"fmt"
	"maps"
	"net/url"
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
		p.Text = "Every live replica is stopping, draining or cannot start runs. No run starts."
	}
	add(p)
}

// lostReplica is a replica whose session expired.
type lostReplica struct {
	lost   Replica // its latest lost session
	latest Replica // its latest session
}

// back reports whether the replica has another session since.
func (l lostReplica) back() bool { return l.latest.Session != l.lost.Session }

// lostReplicas returns the replicas that lost a session, by name.
func lostReplicas(e Evidence) (list []lostReplica) {
	found := make(map[string]lostReplica)
	for _, r := range e.Replicas {
		known, seen := found[r.Name]
		if !seen || r.StartedAt.After(known.latest.StartedAt) {
			known.latest = r
		}
		if r.Lost() && (known.lost.Name == "" || r.StartedAt.After(known.lost.StartedAt)) {
			known.lost = r
		}
		found[r.Name] = known
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name].lost.Name != "" {
			list = append(list, found[name])
		}
	}
	return list
}

// lostProblems reports replicas whose sessions expired, with the jobs that failed because of it.
// The problem of a replica that is back has ended.
func lostProblems(e Evidence, add func(Problem)) {
	for _, l := range lostReplicas(e) {
		name := l.lost.Name
		p := Problem{Kind: KindReplicaLost, Severity: Amber, Subject: name, Link: replicasPath,
			Since: &l.lost.ExpiresAt, ended: "Replica " + name + " was lost."}
		switch {
		case l.back() && l.latest.Live():
			p.Text, p.EndedAt = "Replica "+name+" was lost and is back.", &l.latest.StartedAt
		case l.back():
			continue
		case l.lost.State == ReplicaExpired:
			p.Text = "Replica " + name + " sends no heartbeats. The next sweep records its runs " +
				"as lost and releases its locks."
		default:
			p.Text = "Replica " + name + " is lost and not back. Its runs are recorded as lost"
			if failed := lostJobs(e, l); len(failed) > 0 {
				p.Text += ": " + named(failed)
			}
			p.Text += "."
		}
		add(p)
	}
}

// lostJobs returns the jobs that failed in their last run for no other reason than the loss of the
// replica. The sweep that ended its session recorded the run as lost.
func lostJobs(e Evidence, l lostReplica) (names []string) {
	if l.back() || l.lost.EndedAt == nil {
		return nil
	}
	for _, job := range slices.Sorted(maps.Keys(e.Outcomes)) {
		s := e.streak(job, e.Now)
		if s.Failures == 1 && s.EndedAt == nil && s.Lost &&
			!s.Last.Before(l.lost.LastHeartbeat) && s.Last.Sub(*l.lost.EndedAt) < sweepTime {
			names = append(names, job)
		}
	}
	return names
}

// notReadyProblems reports live replicas that cannot start runs. Replicas that drain, or whose
// clock is off, have problems of their own. A stop is not a problem.
func notReadyProblems(e Evidence, add func(Problem)) {
	served := false
	for _, r := range e.Replicas {
		if !r.Live() {
			continue
		}
		if r.Session.String() == e.ServedBy.Session {
			served = true
		}
		if r.NotReady == "" || r.Draining || r.Stopping || e.clockIsOff(r) {
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
func signInProblems(slowed []SlowedSignIns) (found []Problem) {
	for _, s := range slowed {
		found = append(found, Problem{Kind: KindSignIns, Severity: Amber, Subject: s.User,
			Link: "/audit", Count: s.Failures,
			Text: fmt.Sprintf("%s as user %s failed within %s. Sign-ins as this user are slowed, "+
				"except in known browsers.",
				words.Title(words.Plural(s.Failures, "sign-in", "sign-ins")), s.User,
				words.Span(s.Since))})
	}
	return found
}

// deliveriesOf are deliveries of one webhook.
type deliveriesOf struct {
	webhook string
	count   int
	first   time.Time           // the earliest of their times
	last    storage.Undelivered // the newest delivery
}

// byWebhook groups deliveries, the newest of which is first, and returns the groups by name.
func byWebhook(list []storage.Undelivered, at func(storage.Undelivered) time.Time) (
	groups []deliveriesOf) {
	for _, u := range list {
		place := slices.IndexFunc(groups, func(g deliveriesOf) bool {
			return g.webhook == u.Webhook
		})
		if place < 0 {
			place = len(groups)
			groups = append(groups, deliveriesOf{webhook: u.Webhook, first: at(u), last: u})
		}
		g := &groups[place]
		g.count++
		if at(u).Before(g.first) {
			g.first = at(u)
		}
	}
	slices.SortFunc(groups, func(a, b deliveriesOf) int {
		return strings.Compare(a.webhook, b.webhook)
	})
	return groups
}

// figure returns the number of deliveries in words. If maxDeliveries were counted, there may be
// more.
func (d deliveriesOf) figure(counted int) string {
	many := words.PlainFigure(d.count, "delivery", "deliveries")
	if counted == maxDeliveries {
		many = "at least " + many
	}
	return words.Title(many) + " of webhook " + words.Cut(d.webhook, 100)
}

// givenUpProblems reports deliveries that were given up, by webhook.
func givenUpProblems(e Evidence, add func(Problem)) {
	groups := byWebhook(e.GivenUp, func(u storage.Undelivered) time.Time {
		return u.GaveUpAt.UTC()
	})
	for _, d := range groups {
		add(Problem{Kind: KindGivenUp, Severity: Amber, Subject: d.webhook,
			Link: "/webhooks?given_up=yes", Since: &d.first, Count: d.count,
			Text: d.figure(len(e.GivenUp)) + " " + words.Verb(d.count, "was", "were") +
				" given up in the last 24 h.",
			ended: "Webhook " + words.Cut(d.webhook, 100) +
				" had deliveries that were given up."})
	}
}

// undeliveredProblems reports deliveries that have failed for failingDelivery, by webhook.
func undeliveredProblems(e Evidence, add func(Problem)) {
	groups := byWebhook(e.Undelivered, func(u storage.Undelivered) time.Time {
		return u.CreatedAt.UTC()
	})
	for _, d := range groups {
		text := d.figure(len(e.Undelivered)) + " " + words.Verb(d.count, "has", "have") +
			" failed for more than 10 min."
		if d.last.Error != "" {
			text += " Last error: " + words.Sentence(words.OneLine(d.last.Error, 300))
		}
		add(Problem{Kind: KindUndelivered, Severity: Amber, Subject: d.webhook,
			Link:  "/webhooks?webhook=" + url.QueryEscape(d.webhook),
			Since: &d.first, Count: d.count, Text: text,
			ended: "Deliveries of webhook " + words.Cut(d.webhook, 100) + " failed."})
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
