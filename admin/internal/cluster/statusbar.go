package cluster

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const replicasName = "Replicas" // the part of the replicas

// StatusPart is the state of one part of the cluster in a few words.
type StatusPart struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Link     string   `json:"link"` // path of the page with details, without a prefix
}

// statusParts returns the state of the store, of the replicas, of memcached and of the databases of
// jobs. The texts are current. The severities are those of the problems that the status shows, so
// that they do not flicker either.
func statusParts(e Evidence, problems []Problem) []StatusPart {
	store := StatusPart{e.StoreName, Neutral, "answers", storePath}
	if e.StoreError != "" {
		store.Text = "does not answer"
	}
	store.worsen(problems, func(p Problem) bool { return p.Kind == KindStore })
	parts := []StatusPart{store}
	if !e.Now.IsZero() {
		part := replicasPart(e)
		part.worsen(problems, ofReplicas)
		parts = append(parts, part)
	}
	if e.Memcached != nil {
		part := memcachedPart(e.Memcached.Servers)
		part.worsen(problems, func(p Problem) bool {
			return p.Kind == KindMemcached && p.aspect != aspectEvents
		})
		parts = append(parts, part)
	}
	for _, d := range e.databases() {
		part := StatusPart{"Database " + d.Name, Neutral, d.State(), databasesPath}
		part.worsen(problems, func(p Problem) bool {
			return p.Kind == KindDatabase && p.Subject == d.Name
		})
		parts = append(parts, part)
	}
	return parts
}

// ofReplicas reports whether a problem is one of the part of replicas.
func ofReplicas(p Problem) bool {
	return slices.Contains([]Kind{KindNoReplica, KindReplicaLost, KindNotReady, KindClock,
		KindDraining}, p.Kind)
}

// worsen gives the part the severity of the worst of its problems.
func (s *StatusPart) worsen(problems []Problem, mine func(Problem) bool) {
	for _, p := range problems {
		if mine(p) {
			s.Severity = worst(s.Severity, p.Severity)
		}
	}
}

// replicasPart counts live replicas among all that should be live: those that are, and lost ones
// that are not back. A late heartbeat is no problem, but makes the part amber.
func replicasPart(e Evidence) StatusPart {
	part := StatusPart{Name: replicasName, Severity: Neutral, Link: replicasPath}
	if e.StoreError != "" {
		part.Severity, part.Text = Amber, "unknown"
		return part
	}
	live := 0
	names := make(map[string]bool)
	for _, r := range e.Replicas {
		if r.Live() {
			live++
			names[r.Name] = true
		}
		if r.State == ReplicaLate {
			part.Severity = Amber
		}
	}
	total := live
	for _, r := range e.Replicas {
		if r.Lost() && !names[r.Name] {
			names[r.Name] = true
			total++
		}
	}
	part.Text = fmt.Sprintf("%d of %d live", live, total)
	return part
}

func memcachedPart(servers []memcached.Health) StatusPart {
	counts := make(map[memcached.State]int)
	for _, h := range servers {
		counts[h.State]++
	}
	part := StatusPart{Name: "memcached", Severity: Neutral, Link: memcachedPath}
	many := func(n int, words string) string {
		return fmt.Sprintf("%d of %d %s", n, len(servers), words)
	}
	switch gone, unsafe, unknown := counts[memcached.StateUnreachable],
		counts[memcached.StateUnsafe], counts[memcached.StateUnknown]; {
	case gone > 0:
		part.Text = many(gone, words.Verb(gone, "does not answer", "do not answer"))
	case unsafe > 0:
		part.Text = many(unsafe, words.Verb(unsafe, "is not safe for locks",
			"are not safe for locks"))
	case unknown > 0:
		part.Text = many(unknown, "not checked yet")
	default:
		part.Text = words.PlainFigure(len(servers), "server", "servers")
	}
	return part
}
