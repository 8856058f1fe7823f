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

func memcachedProblems(o *Overview, add func(Severity, string, ...any)) {
	if o.Memcached == nil {
		return
	}
	for _, h := range o.Memcached.Servers {
		switch h.State {
		case memcached.StateUnreachable:
			add(Notice,
				"memcached %s has not answered %s for %s: %s Locks rely on the store alone.",
				h.Server, o.Memcached.SeenBy, words.Span(o.Now.Sub(h.Since)),
				words.Sentence(words.OneLine(ServerError(h), 300)))
		case memcached.StateUnsafe:
			add(Notice, "memcached %s is not safe for locks: %s. Locks rely on the store.",
				h.Server, unsafeSettings(h))
		}
		var recentEvents []string
		for _, e := range RecentEvents(h, o.Now) {
			recentEvents = append(recentEvents,
				EventWords(e)+" "+words.Span(o.Now.Sub(e.At))+" ago")
		}
		if len(recentEvents) > 0 {
			add(Notice, "memcached %s %s.", h.Server, strings.Join(recentEvents, ", "))
		}
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

// EventWords describes an event, or returns "" for one that the page shows otherwise.
func EventWords(e memcached.Event) string {
	switch e.Kind {
	case memcached.EventRestarted:
		return "restarted and lost its locks"
	case memcached.EventFlushed:
		return "was flushed and lost its locks"
	case memcached.EventEvicted:
		return fmt.Sprintf("evicted %s", words.Figure(int(e.Count), "entry", "entries"))
	case memcached.EventReassigned:
		return fmt.Sprintf("dropped %s while it reassigned memory",
			words.Figure(int(e.Count), "entry", "entries"))
	case memcached.EventFull:
		return fmt.Sprintf("was full and refused %s", words.Figure(int(e.Count), "entry",
			"entries"))
	case memcached.EventConnections:
		return fmt.Sprintf("refused %s", words.Figure(int(e.Count), "connection", "connections"))
	}
	return ""
}

// serverListProblems reports live replicas with different lists of servers.
func serverListProblems(o *Overview, add func(Severity, string, ...any)) {
	names := make(map[string][]string) // by list
	for _, r := range o.Replicas {
		if r.Live() && r.LockServers != "" {
			names[r.LockServers] = append(names[r.LockServers], r.Name)
		}
	}
	if len(names) < 2 {
		return
	}
	var groups []string
	for _, group := range names {
		groups = append(groups, strings.Join(group, ", "))
	}
	slices.Sort(groups)
	add(Notice, "The replicas have %s different lists of memcached servers (%s). Locks rely on "+
		"the store. Configure the same servers in the same order on all replicas.",
		words.Number(len(groups)), strings.Join(groups, " / "))
}

// UsageWords describes the usage of a server, with memory in the unit of memcached's -m.
func UsageWords(u memcached.Usage) string {
	const mega = 1 << 20
	used := fmt.Sprint(u.Bytes / mega)
	if u.Bytes > 0 && u.Bytes < mega {
		used = "less than 1"
	}
	return fmt.Sprintf("%s, %s of %d MB, %s", words.Figure(int(u.Items), "entry", "entries"), used,
		u.LimitBytes/mega,
		words.Figure(int(u.Connections), "connection", "connections"))
}

// MemcachedView is the memcached servers as one replica sees them. Another replica may reach a
// server that this one does not.
type MemcachedView struct {
	SeenBy  string             `json:"seen_by"`
	Servers []memcached.Health `json:"servers"` // in the configured order
}

// unreachable reports whether any server does not answer.
func (v *MemcachedView) unreachable() bool {
	return v != nil && slices.ContainsFunc(v.Servers, func(h memcached.Health) bool {
		return h.State == memcached.StateUnreachable
	})
}
