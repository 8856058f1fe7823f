package admin

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
				words.Sentence(words.OneLine(memcachedError(h), 300)))
		case memcached.StateUnsafe:
			add(Notice, "memcached %s is not safe for locks: %s. Locks rely on the store.",
				h.Server, unsafeSettings(h))
		}
		var recentEvents []string
		for _, e := range recent(h, o.Now) {
			recentEvents = append(recentEvents,
				eventWords(e)+" "+words.Span(o.Now.Sub(e.At))+" ago")
		}
		if len(recentEvents) > 0 {
			add(Notice, "memcached %s %s.", h.Server, strings.Join(recentEvents, ", "))
		}
	}
}

// memcachedError returns the error of a server, without the server's name as prefix.
func memcachedError(h memcached.Health) string {
	return strings.TrimPrefix(h.Error, "memcached "+h.Server+": ")
}

// unsafeSettings lists unsafe settings with their remedies.
func unsafeSettings(h memcached.Health) string {
	var parts []string
	for _, s := range h.Complaints(memcached.Unsafe) {
		parts = append(parts, settingWords(s)+" ("+s.Mend+")")
	}
	return strings.Join(parts, ", ")
}

func settingWords(s memcached.Setting) string {
	if s.Value == "" {
		return s.Name + " is not reported"
	}
	return s.Name + " is " + s.Value
}

// recent returns the last event of each kind, if it is newer than recentEventAge.
func recent(h memcached.Health, now time.Time) (events []memcached.Event) {
	var kinds []memcached.EventKind
	for _, e := range h.Events {
		if now.Sub(e.At) < recentEventAge && eventWords(e) != "" &&
			!slices.Contains(kinds, e.Kind) {
			kinds, events = append(kinds, e.Kind), append(events, e)
		}
	}
	return events
}

// eventWords describes an event, or returns "" for one that the page shows otherwise.
func eventWords(e memcached.Event) string {
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
		if r.live() && r.LockServers != "" {
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

// usageWords describes the usage of a server, with memory in the unit of memcached's -m.
func usageWords(u memcached.Usage) string {
	const mega = 1 << 20
	used := fmt.Sprint(u.Bytes / mega)
	if u.Bytes > 0 && u.Bytes < mega {
		used = "less than 1"
	}
	return fmt.Sprintf("%s, %s of %d MB, %s", words.Figure(int(u.Items), "entry", "entries"), used,
		u.LimitBytes/mega,
		words.Figure(int(u.Connections), "connection", "connections"))
}
