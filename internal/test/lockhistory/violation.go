package lockhistory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-dev/holdfast/locking"
)

// Rule is a rule that a history can break.
type Rule string

// The rules.
const (
	RuleExclusive Rule = "two exclusive locks on one resource"
	RuleShared    Rule = "an exclusive lock beside a shared one"
	RuleSlots     Rule = "more locks than slots"
	RuleModes     Rule = "a slotted lock beside one of another mode"
	RuleHierarchy Rule = "a lock above or beneath another"
	RuleRelease   Rule = "a release without the lock"
	RuleCommit    Rule = "a commit without the lock"
	RuleToken     Rule = "a token that did not grow"
	RuleLedger    Rule = "a lock that was told otherwise than the ledger says"
	RuleOrder     Rule = "grants that no order explains"
)

// Violation is a minimal illegal part of a history.
type Violation struct {
	Rule   Rule
	Locks  []*Lock // in the order of their calls
	Of     int     // number of locks in the history
	Detail string  // more details, or empty

	history *History
	ledger  []stay // set if the ledger alone shows it
}

// ruleOf returns the rule that a minimal illegal set of locks breaks.
func (h *History) ruleOf(core []*Lock) Rule {
	legal := func(change func(*Lock)) bool {
		changed := make([]*Lock, len(core))
		for i, k := range core {
			copied := *k
			change(&copied)
			changed[i] = &copied
		}
		return h.linearizable(changed) == porcupine.Ok
	}
	switch {
	case legal(func(k *Lock) { k.Token = 0 }):
		return RuleToken
	case legal(func(k *Lock) { k.Commits = nil }):
		return RuleCommit
	case len(core) == 1:
		return RuleRelease
	}
	return ruleOfHolders(core)
}

// ruleOfStays returns the rule that locks break by their commits.
func ruleOfStays(core []stay) Rule {
	blind := slices.Clone(core)
	for i, w := range core {
		lock := *w.lock
		lock.Token = 0
		blind[i].lock = &lock
	}
	if replay(blind) {
		return RuleToken
	}
	return ruleOfHolders(locksOf(core))
}

func ruleOfHolders(core []*Lock) Rule {
	if len(core) != 2 {
		for _, request := range core[0].Requests {
			if request.Mode == locking.Slotted && request.Slots < len(core) &&
				allAsk(core, request.Resource) {
				return RuleSlots
			}
		}
		return RuleOrder
	}
	rule := RuleOrder
	for _, a := range core[0].Requests {
		for _, b := range core[1].Requests {
			switch {
			case a.Resource == b.Resource && a.Mode == locking.Slotted && b.Mode == locking.Slotted:
				rule = RuleSlots // unless another pair shows the violation better
			case locking.Conflict(a.Request, b.Request):
				return ruleOfPair(a.Request, b.Request)
			}
		}
	}
	return rule
}

func allAsk(core []*Lock, resource locking.Resource) bool {
	for _, k := range core {
		if !slices.ContainsFunc(k.Requests, func(r Request) bool {
			return r.Resource == resource && r.Mode == locking.Slotted
		}) {
			return false
		}
	}
	return true
}

func ruleOfPair(a, b locking.Request) Rule {
	switch {
	case a.Resource != b.Resource:
		return RuleHierarchy
	case a.Mode == locking.Slotted || b.Mode == locking.Slotted:
		return RuleModes
	case a.Mode == locking.Shared || b.Mode == locking.Shared:
		return RuleShared
	}
	return RuleExclusive
}

// Error describes the locks with their requests and tokens. Then it lists their events in order, in
// seconds since the first event.
func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "history is wrong: %s", v.Rule)
	if v.Detail != "" {
		fmt.Fprintf(&b, ": %s", v.Detail)
	}
	if v.Of > 0 {
		fmt.Fprintf(&b, ": %d of %d locks can't all be right", len(v.Locks), v.Of)
	}
	for _, k := range v.Locks {
		fmt.Fprintf(&b, "\n  lock %s of %s, token %d: %s", k.ID, k.Process, k.Token,
			strings.Join(texts(k.Requests), ", "))
	}
	if v.ledger != nil {
		v.write(&b, "commits by the store's clock", v.commitLines(), time.Microsecond)
	}
	if v.history != nil {
		v.write(&b, "by the machine's monotonic clock", v.lines(), time.Nanosecond)
	}
	return b.String()
}

func texts(requests []Request) []string {
	var all []string
	for _, r := range requests {
		all = append(all, r.String())
	}
	return all
}

// line is one event as text.
type line struct {
	at   int64
	text string
}

func (v *Violation) write(b *strings.Builder, title string, lines []line, unit time.Duration) {
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	fmt.Fprintf(b, "\n  %s:", title)
	for _, l := range lines {
		fmt.Fprintf(b, "\n  %12.6f s  %s", (time.Duration(l.at-lines[0].at) * unit).Seconds(),
			l.text)
	}
}

func (v *Violation) commitLines() []line {
	var lines []line
	for _, w := range v.ledger {
		lines = append(lines, line{w.from, w.lock.ID + " passes its first fence"},
			line{w.until, w.lock.ID + " commits the last time"})
	}
	return lines
}

// lines returns the events of each lock, and the notes of that time.
func (v *Violation) lines() []line {
	var lines []line
	for _, k := range v.Locks {
		lines = append(lines, v.history.linesOf(k)...)
	}
	if len(lines) == 0 {
		return nil
	}
	byTime := func(a, b line) int { return cmp.Compare(a.at, b.at) }
	first, last := slices.MinFunc(lines, byTime).at, slices.MaxFunc(lines, byTime).at
	for _, n := range v.history.notes {
		if first <= n.At && n.At <= last {
			lines = append(lines, line{n.At, n.Text})
		}
	}
	return lines
}

func (h *History) linesOf(k *Lock) []line {
	lines := []line{{k.Acquired.Call, k.ID + " asks"}, {k.Acquired.Return, k.ID + " is granted"}}
	add := func(at int64, text string) {
		if at != never {
			lines = append(lines, line{at, k.ID + " " + text})
		}
	}
	if k.From != 0 {
		add(k.From, "asks for the claim that it gets")
	}
	for _, c := range k.Commits {
		add(c.Call, fmt.Sprintf("begins commit %d", c.Number))
		add(c.Return, fmt.Sprintf("ends commit %d: %s", c.Number, c.Outcome))
	}
	if k.Lost != 0 {
		add(k.Lost, "knows that it is lost")
	}
	if k.Released != nil {
		add(k.Released.Call, "releases")
		add(k.Released.Return, map[bool]string{true: "has released",
			false: "ends its release: it was lost, or is unclear"}[k.Given])
	}
	if !k.Given {
		add(h.freed(k).Call, "is free at the earliest (it never released)")
	}
	return lines
}
