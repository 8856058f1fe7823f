package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// recentEventAge is how long the page shows an event of a server.
const recentEventAge = 10 * time.Minute

// The problems of a server.
const (
	aspectUnreachable = "unreachable"
	aspectUnsafe      = "unsafe"
	aspectEvents      = "events" // recent losses of locks
)

// memcachedProblems reports servers that this replica cannot use, and recent losses of locks.
func memcachedProblems(e Evidence, now time.Time, add func(Problem)) {
	if e.Memcached == nil {
		return
	}
	for _, h := range e.Memcached.Servers {
		p := Problem{Kind: KindMemcached, Severity: Amber, Subject: h.Server, Link: memcachedPath}
		switch h.State {
		case memcached.StateUnreachable:
			since := h.Since.UTC()
			p.Since, p.aspect = &since, aspectUnreachable
			p.ended = "memcached " + h.Server + " did not answer and is back."
			asker := ""
			if e.Memcached.SeenBy != "" { // a program that is no replica has no name
				asker = " " + e.Memcached.SeenBy
			}
			p.Text = fmt.Sprintf("memcached %s does not answer%s: %s Locks rely on the store "+
				"alone.", h.Server, asker, words.Sentence(words.OneLine(ServerError(h), 300)))
			add(p)
		case memcached.StateUnsafe:
			p.Text = fmt.Sprintf("memcached %s is not safe for locks: %s. Locks rely on the store.",
				h.Server, unsafeSettings(h))
			p.aspect = aspectUnsafe
			p.ended = "memcached " + h.Server + " was not safe for locks."
			add(p)
		}
		recent := RecentEvents(h, now)
		if len(recent) == 0 {
			continue
		}
		var texts []string
		for _, event := range recent {
			texts = append(texts, EventWords(event))
		}
		since := recent[len(recent)-1].At.UTC()
		p.Since, p.Text = &since, "memcached "+h.Server+" "+strings.Join(texts, ", ")+"."
		p.aspect, p.ended = aspectEvents, p.Text
		add(p)
	}
}

// ServerError returns the error of a server, without the server's name as prefix.
func ServerError(h memcached.Health) string {
	return strings.TrimPrefix(h.Error, "memcached "+h.Server+": ")
}

// unsafeSettings lists unsafe settings with their remedies.
func unsafeSettings(h memcached.Health) string {
	var parts []string
	for _, s := range h.Complaints(memcached.Unsafe) {
		parts = append(parts, SettingWords(s)+" ("+s.Mend+")")
	}
	return strings.Join(parts, ", ")
}

// SettingWords describes a setting of a server by its value.
func SettingWords(s memcached.Setting) string {
	if s.Value == "" {
		return s.Name + " is not reported"
	}
	return s.Name + " is " + s.Value
}

// RecentEvents returns the last event of each kind, if it is newer than recentEventAge.
func RecentEvents(h memcached.Health, now time.Time) (events []memcached.Event) {
	var kinds []memcached.EventKind
	for _, e := range h.Events {
		if now.Sub(e.At) < recentEventAge && EventWords(e) != "" &&
			!slices.Contains(kinds, e.Kind) {
			kinds, events = append(kinds, e.Kind), append(events, e)
		}
	}
	return events
}

// EventWords describes an event for the API, or returns "" for one that the page shows otherwise.
func EventWords(e memcached.Event) string {
	switch e.Kind {
	case memcached.EventRestarted:
		return "restarted and lost its locks"
	case memcached.EventFlushed:
		return "was flushed and lost its locks"
	case memcached.EventEvicted:
		return fmt.Sprintf("evicted %s", words.PlainFigure(int(e.Count), "entry", "entries"))
	case memcached.EventReassigned:
		return fmt.Sprintf("dropped %s while it reassigned memory",
			words.PlainFigure(int(e.Count), "entry", "entries"))
	case memcached.EventFull:
		return fmt.Sprintf("was full and refused %s", words.PlainFigure(int(e.Count), "entry",
			"entries"))
	case memcached.EventConnections:
		return fmt.Sprintf("refused %s",
			words.PlainFigure(int(e.Count), "connection", "connections"))
	}
	return ""
}

// serverListProblems reports live replicas with different lists of servers.
func serverListProblems(e Evidence, add func(Problem)) {
	names := make(map[string][]string) // by list
	for _, r := range e.Replicas {
		if r.Live() && r.LockServers != "" {
			names[r.LockServers] = append(names[r.LockServers], r.Name)
		}
	}
	if len(names) < 2 {
		return
	}
	add(Problem{Kind: KindDrift, Severity: Amber, Link: replicasPath, aspect: "servers",
		ended: "The replicas had different lists of memcached servers.",
		Text: fmt.Sprintf("The replicas have %s different lists of memcached servers (%s). Locks "+
			"rely on the store. Configure the same servers in the same order on all replicas.",
			words.Number(len(names)), groupsOf(names))})
}

// UsageWords describes the usage of a server, with memory in the unit of memcached's -m.
func UsageWords(u memcached.Usage) string {
	const mega = 1 << 20
	used := words.Count(int(u.Bytes / mega))
	if u.Bytes > 0 && u.Bytes < mega {
		used = "less than 1"
	}
	return fmt.Sprintf("%s, %s of %s MB, %s", words.Figure(int(u.Items), "entry", "entries"), used,
		words.Count(int(u.LimitBytes/mega)),
		words.Figure(int(u.Connections), "connection", "connections"))
}

// MemcachedView is the memcached servers as one replica sees them. Another replica may reach a
// server that this one does not.
type MemcachedView struct {
	SeenBy  string             `json:"seen_by"`
	Servers []memcached.Health `json:"servers"` // in the configured order
}
