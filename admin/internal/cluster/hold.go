package cluster

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// HoldTime is how long the status shows a problem after its end, so that it does not flicker.
	HoldTime = time.Minute
	// settleTime is how long a problem that may be momentary must last until the status shows it.
	settleTime = 10 * time.Second
)

// appearsAfter returns how long the problem must last until the status shows it. It is 0 for kinds
// that are urgent, for kinds whose rules already require that the problem has lasted, and for past
// events, which do not last.
func (p Problem) appearsAfter() time.Duration {
	switch p.Kind {
	case KindNotReady, KindClock, KindDrift, KindDatabase:
		return settleTime
	case KindMemcached:
		if p.aspect != aspectEvents {
			return settleTime
		}
	}
	return 0
}

// Hold decides which problems the status shows. It hides a problem that has not lasted for
// appearsAfter, and keeps a problem for HoldTime after its end. A problem has lasted since its time
// Since, or else since the previous status did not find it. Without a previous status, a problem
// without that time is shown at once. Hold is safe for concurrent use. The zero value is ready.
type Hold struct {
	// once shows every active problem at once. It is for a program that computes only one status,
	// and does not know how long its problems have lasted.
	once bool

	mu    sync.Mutex
	read  map[Kind]time.Time // when each rule was last evaluated
	known map[problemKey]*heldProblem

	judged   Status // the last one, without sign-ins
	judgedAt time.Time
}

// problemKey identifies a problem while its text changes.
type problemKey struct {
	kind            Kind
	subject, aspect string
}

// heldProblem is a problem that is active, or was shown less than HoldTime ago.
type heldProblem struct {
	Problem
	began   time.Time // end of the last status without the problem; zero if there is none
	found   time.Time // last time
	endedAt time.Time // zero while it is active
	shown   bool
}

// apply returns the problems to show, of those that the rules of some kinds have found. The time of
// the store is used for Since and EndedAt. Problems of other kinds are unknown and stay as they
// are.
func (h *Hold) apply(found []Problem, kinds []Kind, storeNow time.Time) []Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.read, h.known = make(map[Kind]time.Time), make(map[problemKey]*heldProblem)
	}
	now := time.Now()
	var shown, ended []Problem
	active := make(map[problemKey]bool, len(found))
	for _, p := range found {
		key := problemKey{p.Kind, p.Subject, p.aspect}
		if p.EndedAt != nil { // the store knows its end
			delete(h.known, key)
			if storeNow.Sub(*p.EndedAt) < HoldTime {
				shown = append(shown, p)
			}
			continue
		}
		active[key] = true
		if one := h.find(key, p, now); one.settled(now, storeNow) || h.once {
			shown = append(shown, p)
		}
	}
	for _, kind := range kinds {
		h.read[kind] = now
		for key, one := range h.known {
			if key.kind == kind && !active[key] {
				ended = append(ended, h.end(key, one, now, storeNow)...)
			}
		}
	}
	slices.SortFunc(ended, func(a, b Problem) int { return strings.Compare(a.Text, b.Text) })
	return append(shown, ended...)
}

// find notes that a problem is active.
func (h *Hold) find(key problemKey, p Problem, now time.Time) *heldProblem {
	one := h.known[key]
	if one == nil {
		one = &heldProblem{began: h.read[p.Kind]}
		h.known[key] = one
	}
	one.Problem, one.found, one.endedAt = p, now, time.Time{}
	return one
}

// settled reports whether an active problem has lasted long enough, or was shown before.
func (p *heldProblem) settled(now, storeNow time.Time) bool {
	after, lasted := p.appearsAfter(), now.Sub(p.began)
	if p.Since != nil {
		lasted = storeNow.Sub(*p.Since)
	}
	p.shown = p.shown || after == 0 || lasted >= after
	return p.shown
}

// end notes that a problem is not active, and returns it while it is to be shown.
func (h *Hold) end(key problemKey, one *heldProblem, now, storeNow time.Time) []Problem {
	if one.endedAt.IsZero() && now.Sub(one.found) < HoldTime {
		one.endedAt = now
	}
	if !one.shown || one.endedAt.IsZero() || now.Sub(one.endedAt) >= HoldTime {
		delete(h.known, key)
		return nil
	}
	p, at := one.Problem, storeNow.Add(-now.Sub(one.endedAt)).UTC()
	p.Text, p.EndedAt = p.ended, &at
	return []Problem{p}
}

// keep notes the last status.
func (h *Hold) keep(v Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judged, h.judgedAt = v, time.Now()
}

// last returns the last status, or an unknown one if that is older than HoldTime.
func (h *Hold) last(by ServedBy, slowed []SlowedSignIns) Status {
	h.mu.Lock()
	v, age := h.judged, time.Since(h.judgedAt)
	h.mu.Unlock()
	if age < HoldTime {
		return v.complete(by, slowed)
	}
	v = Status{Problems: []Problem{}, Parts: []StatusPart{}}.complete(by, slowed)
	v.Severity, v.Headline = Amber, "The state of the cluster is unknown"
	return v
}
