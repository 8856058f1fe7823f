package memcached

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	keptEvents = 10
	// eventRest is the least time between two events about one counter. The first change of a
	// counter is reported at once. Later changes are added up, and reported together when this time
	// is over.
	eventRest = time.Minute
)

// watched is the state of one server. It makes events of the differences between two
// readings.
type watched struct {
	server     server
	needs      needs
	health     Health
	last       *reading                // nil before the first reply
	unreported map[EventKind]uint64    // counted but not reported yet
	reportedAt map[EventKind]time.Time // time of the last event of a kind
}

func newWatched(s server, n needs) *watched {
	return &watched{
		server: s, needs: n, unreported: map[EventKind]uint64{},
		reportedAt: map[EventKind]time.Time{},
		health: Health{Server: s.String(), State: StateUnknown, Settings: []Setting{},
			Events: []Event{}},
	}
}

// fail records a failed reading, and returns the events.
func (w *watched) fail(now time.Time, err error) (news []Event) {
	h := &w.health
	h.ReadAt = now
	if h.State != StateUnreachable {
		h.State, h.Since = StateUnreachable, now
		h.Seen.Outages++
		news = append(news, Event{Kind: EventUnreachable, At: now, Error: err.Error()})
	} else if silent(err) != silent(h.err) {
		// The failure is a different one now.
		news = append(news, Event{Kind: EventUnreachable, At: now, Error: err.Error()})
	}
	h.Error, h.err = err.Error(), err
	return w.keep(news)
}

// silent reports whether the server did not reply. Otherwise it replied, but
// unexpectedly.
func silent(err error) bool {
	for _, lost := range []error{os.ErrDeadlineExceeded, context.DeadlineExceeded,
		syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, lost) {
			return true
		}
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// take records a reply, and returns the events.
func (w *watched) take(now time.Time, r reading) (news []Event) {
	h := &w.health
	if h.State == StateUnreachable {
		news = append(news, Event{Kind: EventBack, At: now})
	}
	if h.State == StateUnreachable || h.State == StateUnknown {
		h.Since = now
	}
	news = append(news, w.restarted(now, r)...)
	news = append(news, w.grown(now, r)...)
	settings := judge(r, w.needs)
	news = append(news, turned(now, h.Settings, settings)...)

	h.State, h.ReadAt, h.Error, h.err = StateSafe, now, "", nil
	h.Version, h.StartedAt, h.Usage, h.Settings = r.version, time.Unix(r.started, 0).UTC(), r.usage,
		settings
	h.Counts = Counts{
		Flushes: r.counters[flushes], Evictions: r.counters[evictions],
		SlabEvictions: r.counters[reassigns],
		OutOfMemory:   r.counters[outOfMemory], RefusedConnections: r.counters[refused],
	}
	if len(h.Complaints(Unsafe)) > 0 {
		h.State = StateUnsafe
	}
	w.last = &r
	return w.keep(news)
}

func (w *watched) restarted(now time.Time, r reading) []Event {
	if w.last == nil || w.last.pid == r.pid && w.last.started == r.started {
		return nil
	}
	w.health.Seen.Restarts++
	w.last.counters = nil // its counters begin at 0 again
	return []Event{{Kind: EventRestarted, At: now}}
}

// grown counts what has happened since the last reply. What happened before the
// first one is not reported.
func (w *watched) grown(now time.Time, r reading) (news []Event) {
	if w.last == nil {
		return nil
	}
	seen := &w.health.Seen
	flushed, total := EventFlushed, &seen.Flushes
	if r.settings["flush_enabled"] == "no" { // it counts refused flushes too
		flushed, total = EventFlushRefused, &seen.RefusedFlushes
	}
	for _, kind := range []struct {
		counter counter
		event   EventKind
		total   *uint64
	}{
		{flushes, flushed, total}, {evictions, EventEvicted, &seen.Evictions},
		{reassigns, EventReassigned, &seen.SlabEvictions},
		{outOfMemory, EventFull, &seen.OutOfMemory},
		{refused, EventConnections, &seen.RefusedConnections},
	} {
		before, after := w.last.counters[kind.counter], r.counters[kind.counter]
		if after < before { // an operator's `stats reset`
			before = 0
		}
		*kind.total += after - before
		w.unreported[kind.event] += after - before
		if w.unreported[kind.event] > 0 && now.Sub(w.reportedAt[kind.event]) >= eventRest {
			news = append(news, Event{Kind: kind.event, At: now, Count: w.unreported[kind.event]})
			w.unreported[kind.event], w.reportedAt[kind.event] = 0, now
		}
	}
	return news
}

// turned returns events for the settings whose rating has changed.
func turned(now time.Time, before, after []Setting) (news []Event) {
	ratings := map[string]Rating{}
	for _, s := range before {
		ratings[s.Name] = s.Rating
	}
	for _, s := range after {
		was, known := ratings[s.Name]
		kind := map[Rating]EventKind{Unsafe: EventUnsafe, Advice: EventAdvice,
			Good: EventCorrected}[s.Rating]
		if was != s.Rating && (known || s.Rating != Good) {
			news = append(news, Event{Kind: kind, At: now, Setting: &s})
		}
	}
	return news
}

// keep puts the news before the older events.
func (w *watched) keep(news []Event) []Event {
	youngest := slices.Clone(news)
	slices.Reverse(youngest)
	all := append(youngest, w.health.Events...)
	w.health.Events = all[:min(len(all), keptEvents)]
	return news
}
