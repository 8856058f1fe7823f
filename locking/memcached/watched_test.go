package memcached

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var begin = time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)

// recommended is the report of a server that was started with deploy/memcached.conf.
func recommended() map[string]string {
	return map[string]string{
		"evictions": "off", "flush_enabled": "no", "slab_reassign": "no", "cas_enabled": "yes", "item_size_max": "1048576",
		"maxconns": "2048", "auth_enabled_ascii": "no", "temp_lru": "no", "temporary_ttl": "61", "idle_timeout": "0", "udpport": "0",
		"inter": "127.0.0.1", "domain_socket": "NULL",
	}
}

// answer is a reading of a server with the recommended settings and these changes.
func answer(counters map[counter]uint64, changes ...string) reading {
	r := reading{pid: 7, started: 1000, version: "1.6.18", counters: counters,
		settings: recommended()}
	for i := 0; i < len(changes); i += 2 {
		r.settings[changes[i]] = changes[i+1]
	}
	return r
}

// kinds writes events as text.
func kinds(events []Event) string {
	var texts []string
	for _, e := range events {
		text := string(e.Kind)
		if e.Count > 0 {
			text += fmt.Sprintf(" %d", e.Count)
		}
		if e.Setting != nil {
			text += " " + e.Setting.Name
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func newTestWatched() *watched { return newWatched("127.0.0.1:11211", needs{}) }

func TestNews(t *testing.T) {
	down := &DialError{Server: "s", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	strange := &ReplyError{Command: "stats", Found: "nonsense"}
	type step struct {
		after time.Duration // since the step before
		r     reading
		err   error
		want  string
	}
	another := func(pid, started int64, r reading) reading {
		r.pid, r.started = pid, started
		return r
	}
	tests := map[string][]step{
		"events before the first reading are not reported": {
			{0, answer(map[counter]uint64{flushes: 3, evictions: 9, outOfMemory: 2, refused: 1, reassigns: 4}), nil, ""},
			{5 * time.Second, answer(map[counter]uint64{flushes: 3, evictions: 9, outOfMemory: 2, refused: 1, reassigns: 4}), nil, ""},
		},
		"restart with another process id": {
			{0, answer(map[counter]uint64{evictions: 9}), nil, ""},
			{5 * time.Second, another(8, 1000, answer(nil)), nil, "restarted"},
			{5 * time.Second, another(8, 1000, answer(nil)), nil, ""},
		},
		"restart in a container, with the same process id": {
			{0, answer(nil), nil, ""},
			{5 * time.Second, another(7, 1004, answer(map[counter]uint64{evictions: 2})), nil, "restarted, evicted 2"},
		},
		"restart during an outage": {
			{0, answer(nil), nil, ""},
			{5 * time.Second, reading{}, down, "unreachable"},
			{5 * time.Second, reading{}, down, ""},
			{5 * time.Second, another(8, 1012, answer(nil)), nil, "back, restarted"},
		},
		"outage without a restart": {
			{0, reading{}, down, "unreachable"},
			{5 * time.Second, answer(nil), nil, "back"},
			{5 * time.Second, reading{}, down, "unreachable"},
			{5 * time.Second, answer(nil), nil, "back"},
		},
		"another trouble is news": {
			{0, reading{}, down, "unreachable"},
			{5 * time.Second, reading{}, strange, "unreachable"},
			{5 * time.Second, reading{}, strange, ""},
			{5 * time.Second, reading{}, down, "unreachable"},
		},
		"flush": {
			{0, answer(nil, "flush_enabled", "yes"), nil, "unsafe flush_enabled"},
			{5 * time.Second, answer(map[counter]uint64{flushes: 1}, "flush_enabled", "yes"), nil, "flushed 1"},
		},
		"flush that -F refuses is counted by the server too": {
			{0, answer(nil), nil, ""},
			{5 * time.Second, answer(map[counter]uint64{flushes: 2}), nil, "flush_refused 2"},
		},
		"a lasting problem is logged rarely": {
			{0, answer(nil), nil, ""},
			{5 * time.Second, answer(map[counter]uint64{evictions: 1}), nil, "evicted 1"},
			{5 * time.Second, answer(map[counter]uint64{evictions: 3}), nil, ""},
			{50 * time.Second, answer(map[counter]uint64{evictions: 6, reassigns: 1}), nil, "reassigned 1"},
			{5 * time.Second, answer(map[counter]uint64{evictions: 6, reassigns: 1}), nil, "evicted 5"},
			{time.Hour, answer(map[counter]uint64{evictions: 6, reassigns: 1}), nil, ""},
			{5 * time.Second, answer(map[counter]uint64{evictions: 7, reassigns: 1}), nil, "evicted 1"},
		},
		"full and no connections": {
			{0, answer(nil), nil, ""},
			{5 * time.Second, answer(map[counter]uint64{outOfMemory: 4, refused: 2}), nil, "full 4, connections 2"},
		},
		"stats reset": {
			{0, answer(map[counter]uint64{evictions: 9, flushes: 5}), nil, ""},
			{5 * time.Second, answer(nil), nil, ""},
			{5 * time.Second, answer(map[counter]uint64{evictions: 1}), nil, "evicted 1"},
		},
		"setting that is corrected by a restart": {
			{0, answer(nil, "evictions", "on", "idle_timeout", "60"), nil, "unsafe evictions, advice idle_timeout"},
			{5 * time.Second, answer(nil, "evictions", "on", "idle_timeout", "60"), nil, ""},
			{5 * time.Second, another(8, 1010, answer(nil)), nil, "restarted, corrected evictions, corrected idle_timeout"},
			{5 * time.Second, another(9, 1015, answer(nil, "evictions", "on")), nil, "restarted, unsafe evictions"},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			w, now := newTestWatched(), begin
			for i, s := range steps {
				now = now.Add(s.after)
				var events []Event
				if s.err != nil {
					events = w.fail(now, s.err)
				} else {
					events = w.take(now, s.r)
				}
				if got := kinds(events); got != s.want {
					t.Errorf("step %d: news %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

// TestSeenCountersNeverDecrease checks that exported counters never decrease.
func TestSeenCountersNeverDecrease(t *testing.T) {
	w := newTestWatched()
	w.take(begin, answer(map[counter]uint64{evictions: 100}))
	w.take(begin.Add(time.Second),
		answer(map[counter]uint64{evictions: 103, reassigns: 2, outOfMemory: 5, refused: 1,
			flushes: 1}))
	w.fail(begin.Add(2*time.Second), errors.New("gone"))
	w.fail(begin.Add(3*time.Second), errors.New("gone"))
	second := answer(map[counter]uint64{evictions: 4, flushes: 1}, "flush_enabled", "yes")
	second.pid = 8
	w.take(begin.Add(4*time.Second), second)
	want := Seen{Outages: 1, Restarts: 1, Flushes: 1, RefusedFlushes: 1, Evictions: 7,
		SlabEvictions: 2, OutOfMemory: 5, RefusedConnections: 1}
	if diff := cmp.Diff(want, w.health.Seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	if w.health.Counts.Evictions != 4 {
		t.Errorf("the server itself counts %+v", w.health.Counts)
	}
}

func TestHealthOverAnOutage(t *testing.T) {
	w := newTestWatched()
	if w.health.State != StateUnknown {
		t.Errorf("before the first poll: got %s", w.health.State)
	}
	w.take(begin, answer(nil))
	w.take(begin.Add(5*time.Second), answer(nil))
	if h := w.health; h.State != StateSafe || !h.Since.Equal(begin) ||
		!h.ReadAt.Equal(begin.Add(5*time.Second)) || h.StartedAt.Unix() != 1000 {
		t.Errorf("answering: %+v", h)
	}
	w.fail(begin.Add(10*time.Second), errors.New("gone"))
	w.fail(begin.Add(15*time.Second), errors.New("gone away"))
	h := w.health
	if h.State != StateUnreachable || !h.Since.Equal(begin.Add(10*time.Second)) ||
		h.Error != "gone away" || h.Version != "1.6.18" || len(h.Settings) == 0 {
		t.Errorf("gone: %+v", h)
	}
	w.take(begin.Add(20*time.Second), answer(nil, "evictions", "on"))
	if h := w.health; h.State != StateUnsafe || !h.Since.Equal(begin.Add(20*time.Second)) ||
		h.Error != "" || h.err != nil {
		t.Errorf("back: %+v", h)
	}
}

func TestOnlyTheLastEventsAreKept(t *testing.T) {
	w := newTestWatched()
	for i := range 20 {
		w.fail(begin.Add(time.Duration(2*i)*time.Second), errors.New("gone"))
		w.take(begin.Add(time.Duration(2*i+1)*time.Second), answer(nil))
	}
	events := w.health.Events
	if len(events) != keptEvents || events[0].Kind != EventBack ||
		!events[0].At.Equal(begin.Add(39*time.Second)) || events[1].Kind != EventUnreachable {
		t.Errorf("%d events, the first two are %+v", len(events), events[:2])
	}
}

func TestRatings(t *testing.T) {
	tests := map[string]struct {
		changes  []string
		password bool
		want     string
	}{
		"as recommended":                       {nil, false, ""},
		"eviction":                             {[]string{"evictions", "on"}, false, "unsafe evictions"},
		"eviction is not reported":             {[]string{"evictions", ""}, false, "unsafe evictions"},
		"flush":                                {[]string{"flush_enabled", "yes"}, false, "unsafe flush_enabled"},
		"slab reassignment":                    {[]string{"slab_reassign", "yes"}, false, "unsafe slab_reassign"},
		"no cas":                               {[]string{"cas_enabled", "no"}, false, "unsafe cas_enabled"},
		"small items":                          {[]string{"item_size_max", "8191"}, false, "unsafe item_size_max"},
		"items just large enough":              {[]string{"item_size_max", "8192"}, false, ""},
		"items of no size":                     {[]string{"item_size_max", "much"}, false, "unsafe item_size_max"},
		"few connections":                      {[]string{"maxconns", "63"}, false, "unsafe maxconns"},
		"connections just enough":              {[]string{"maxconns", "64"}, false, ""},
		"unneeded password":                    {nil, true, "unsafe auth_enabled_ascii"},
		"password":                             {[]string{"auth_enabled_ascii", "/etc/memcached.users"}, true, ""},
		"password, open to all":                {[]string{"auth_enabled_ascii", "/etc/memcached.users", "inter", "NULL"}, true, ""},
		"open to all":                          {[]string{"inter", "NULL"}, false, "advice inter"},
		"open to all by address":               {[]string{"inter", "0.0.0.0"}, false, "advice inter"},
		"open to all by IPv6":                  {[]string{"inter", "::"}, false, "advice inter"},
		"a socket":                             {[]string{"inter", "NULL", "domain_socket", "/run/memcached.sock"}, false, ""},
		"temporary items with -M":              {[]string{"temp_lru", "yes"}, false, "advice temp_lru"},
		"temporary items without -M":           {[]string{"temp_lru", "yes", "evictions", "on"}, false, "unsafe evictions"},
		"idle timeout":                         {[]string{"idle_timeout", "60"}, false, "advice idle_timeout"},
		"UDP":                                  {[]string{"udpport", "11211"}, false, "advice udpport"},
		"old":                                  {[]string{"version", "1.6.9"}, false, "advice version"},
		"very old":                             {[]string{"version", "1.4.39"}, false, "advice version"},
		"newer":                                {[]string{"version", "1.6.38"}, false, ""},
		"much newer":                           {[]string{"version", "2.0.0-rc1"}, false, ""},
		"a release that a distributor patched": {[]string{"version", "1.6.18_1-g12"}, false, ""},
		"no version that can be read":          {[]string{"version", "unknown"}, false, "advice version"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := answer(nil, test.changes...)
			if version, found := r.settings["version"]; found {
				r.version = version
			}
			var got []string
			for _, s := range judge(r, needs{password: test.password}) {
				if s.Rating != Good {
					got = append(got, string(s.Rating)+" "+s.Name)
				}
				if complete := s.Want != "" && s.Mend != "" &&
					s.Why != ""; complete != (s.Rating != Good) {
					t.Errorf("%+v says too much or too little", s)
				}
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestWatchKeepsTheSettingsOfEveryRule checks that the watch keeps each setting that a rule reads.
func TestWatchKeepsTheSettingsOfEveryRule(t *testing.T) {
	for _, r := range rules() {
		if !settingNames[r.name] && r.name != "version" {
			t.Errorf("%s is judged but not kept", r.name)
		}
	}
	for _, sum := range counted {
		for _, name := range sum {
			if !statistics[name] {
				t.Errorf("%s is counted but not kept", name)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(eventLines)); len(got) != 12 {
		t.Errorf("%d kinds of event have a line in the log: %q", len(got), got)
	}
}

func TestSilence(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"refused":  {&DialError{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, true},
		"no name":  {&DialError{Err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}}, true},
		"timeout":  {fmt.Errorf("x: %w", context.DeadlineExceeded), true},
		"deadline": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"reset":    {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		"nonsense": {&ReplyError{}, false},
		"password": {&DialError{Err: &AuthError{}}, false},
		"TLS":      {&DialError{Err: fmt.Errorf("TLS: %w", &net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")})}, false},
	} {
		if got := silent(test.err); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
