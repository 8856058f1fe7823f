package cluster

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// Status is the state of the cluster in words.
type Status struct {
	Parts    []StatusPart // worst first
	Problems []Problem    // worst first
}

// Mood returns the worst mood of all parts and problems.
func (s Status) Mood() string {
	worst := "calm"
	for _, p := range s.Problems {
		worst = worse(worst, p.mood())
	}
	for _, p := range s.Parts {
		worst = worse(worst, p.Mood)
	}
	return worst
}

// Alarms returns the problems with the severity alarm.
func (s Status) Alarms() []Problem { return s.of(Alarm) }

// Notices returns the problems with the severity notice.
func (s Status) Notices() []Problem { return s.of(Notice) }

func (s Status) of(severity Severity) []Problem {
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p Problem) bool {
		return p.Severity != severity
	})
}

// StatusPart is the state of one part of the cluster.
type StatusPart struct {
	Name string
	Mood string // calm, notice or alarm
	Text string
}

// Status returns the status of the cluster. The store has the name storeName.
func (o *Overview) Status(storeName string) Status {
	parts := []StatusPart{{storeName, "calm", "answers"}}
	if o.Error != "" {
		parts[0].Mood, parts[0].Text = "alarm", "does not answer"
	}
	if !o.Now.IsZero() {
		parts = append(parts, clusterPart(o.Replicas))
	}
	if o.Memcached != nil {
		parts = append(parts, memcachedPart(o.Memcached.Servers))
	}
	slices.SortStableFunc(parts, func(a, b StatusPart) int {
		return moodRank(b.Mood) - moodRank(a.Mood)
	})
	return Status{Parts: parts, Problems: Problems(o)}
}

func clusterPart(replicas []Replica) StatusPart {
	part := StatusPart{Name: "Cluster", Mood: "alarm", Text: replicaSummary(replicas)}
	for _, r := range replicas {
		switch r.State {
		case ReplicaLive:
			if part.Mood == "alarm" {
				part.Mood = "calm"
			}
		case ReplicaLate:
			part.Mood = "notice"
		}
	}
	if slices.ContainsFunc(replicas, func(r Replica) bool { return r.State == ReplicaExpired }) {
		part.Mood = "alarm"
	}
	return part
}

func memcachedPart(servers []memcached.Health) StatusPart {
	counts := make(map[memcached.State]int)
	for _, h := range servers {
		counts[h.State]++
	}
	part := StatusPart{Name: "memcached", Mood: "calm"}
	of := words.Plural(len(servers), "server", "servers")
	many := func(n int, one, more string) string {
		if len(servers) == 1 {
			return "its server " + one
		}
		return fmt.Sprintf("%s of %s %s", words.Number(n), of, words.Verb(n, one, more))
	}
	switch gone, unsafe, unknown := counts[memcached.StateUnreachable],
		counts[memcached.StateUnsafe], counts[memcached.StateUnknown]; {
	case gone > 0:
		part.Mood, part.Text = "notice", many(gone, "does not answer", "do not answer")
	case unsafe > 0:
		part.Mood, part.Text = "notice",
			many(unsafe, "is not safe for locks", "are not safe for locks")
	case unknown > 0:
		part.Text = many(unknown, "is not asked yet", "are not asked yet")
	default:
		part.Text = of + words.Verb(len(servers), " answers", " answer")
	}
	return part
}

func moodRank(mood string) int { return slices.Index([]string{"calm", "notice", "alarm"}, mood) }

func worse(a, b string) string {
	if moodRank(b) > moodRank(a) {
		return b
	}
	return a
}
