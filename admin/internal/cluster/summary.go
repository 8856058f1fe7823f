package cluster

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking"
)

// summary describes the cluster in a few sentences.
func summary(o *Overview) string {
	return replicaSummary(o.Replicas) + " " + resourceSummary(o.Resources) + " " +
		runSummary(len(o.Running), len(o.Waiting))
}

func runSummary(running, waiting int) string {
	if running == 0 && waiting == 0 {
		return "No run is running or waiting."
	}
	counted := func(n int) string {
		if n == 0 {
			return "none"
		}
		return words.Number(n)
	}
	return fmt.Sprintf("Runs: %s running, %s waiting.", counted(running), counted(waiting))
}

// replicaSummary counts all replicas that should be live, as the status bar does: lost ones count
// unless they are back.
func replicaSummary(replicas []Replica) string {
	counts, total := replicaCounts(replicas)
	live, late, expired := counts[ReplicaLive], counts[ReplicaLate], counts[ReplicaExpired]
	switch {
	case total == 0:
		return "No replica is registered."
	case total == 1 && live == 1:
		return "One replica, live."
	case total == live:
		return words.Title(words.Number(total)) + " replicas, all live."
	}
	parts := []string{}
	for _, part := range []struct {
		n    int
		word string
	}{{live, "live"}, {late, "late"}, {expired, "expired"}, {counts[ReplicaLost], "lost"}} {
		if part.n > 0 {
			parts = append(parts, words.Number(part.n)+" "+part.word)
		}
	}
	return words.Title(words.Plural(total, "replica", "replicas")) + ": " + strings.Join(parts,
		", ") + "."
}

// replicaCounts counts the replicas that should be live, by state.
func replicaCounts(replicas []Replica) (counts map[ReplicaState]int, total int) {
	counts = make(map[ReplicaState]int)
	present := make(map[string]bool) // by name
	for _, r := range replicas {
		if r.State != ReplicaLost {
			counts[r.State]++
			present[r.Name] = present[r.Name] || r.State != ReplicaStopped
		}
	}
	for _, r := range replicas {
		if r.State == ReplicaLost && !present[r.Name] {
			counts[r.State]++
			present[r.Name] = true
		}
	}
	return counts, counts[ReplicaLive] + counts[ReplicaLate] + counts[ReplicaExpired] +
		counts[ReplicaLost]
}

func resourceSummary(resources []locks.ResourceState) string {
	var tables, heldTables, others, heldOthers int
	for _, r := range resources {
		held := 0
		if r.State == locks.HeldItself || r.State == locks.HeldAbove {
			held = 1
		}
		if r.Kind == locking.KindTable {
			tables, heldTables = tables+1, heldTables+held
		} else {
			others, heldOthers = others+1, heldOthers+held
		}
	}
	text := fmt.Sprintf("%d of %s held.", heldTables, words.PlainFigure(tables, "table", "tables"))
	if tables == 0 {
		text = "No tables are known."
	}
	if others > 0 {
		text += fmt.Sprintf(" %d of %s held.", heldOthers,
			words.PlainFigure(others, "other resource", "other resources"))
	}
	return text
}
