package cluster

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// StatusPart is the state of one part of the cluster in a few words.
type StatusPart struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Link     string   `json:"link"` // path of the page with details, without a prefix
}

// statusParts returns the state of the store, of the replicas, of memcached and of the databases of
// jobs.
func statusParts(e Evidence) []StatusPart {
	store := StatusPart{e.StoreName, Neutral, "answers", storePath}
	if e.StoreError != "" {
		store.Severity, store.Text = Red, "does not answer"
	}
	parts := []StatusPart{store}
	if !e.Now.IsZero() {
		parts = append(parts, replicasPart(e))
	}
	if e.Memcached != nil {
		parts = append(parts, memcachedPart(e.Memcached.Servers))
	}
	for _, d := range e.databases() {
		parts = append(parts, databasePart(d))
	}
	return parts
}

// replicasPart counts live replicas among all that should be live: those that are, and lost ones
// that are not back.
func replicasPart(e Evidence) StatusPart {
	part := StatusPart{Name: "Replicas", Severity: Neutral, Link: replicasPath}
	live, starting := 0, 0
	names := make(map[string]bool)
	for _, r := range e.Replicas {
		if r.Live() {
			live++
			names[r.Name] = true
			if r.StartsRuns() {
				starting++
			}
			if r.State == ReplicaLate || !r.StartsRuns() {
				part.Severity = Amber
			}
		}
	}
	total := live
	for _, r := range e.Replicas {
		if r.Lost() && !names[r.Name] {
			names[r.Name] = true
			total++
			part.Severity = Amber
		}
	}
	if starting == 0 {
		part.Severity = Red
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
		part.Severity, part.Text = Amber,
			many(gone, words.Verb(gone, "does not answer", "do not answer"))
	case unsafe > 0:
		part.Severity, part.Text = Amber,
			many(unsafe, words.Verb(unsafe, "is not safe for locks", "are not safe for locks"))
	case unknown > 0:
		part.Text = many(unknown, "not checked yet")
	default:
		part.Text = words.Figure(len(servers), "server", "servers")
	}
	return part
}
