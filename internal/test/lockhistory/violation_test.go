package lockhistory

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

// TestPlantedViolationsAreFound plants one violation into a correct history. The check must find it
// and report only the locks that are part of it.
func TestPlantedViolationsAreFound(t *testing.T) {
	tests := []struct {
		name string
		rule Rule
		core []locking.Token
		test func(s *story)
	}{
		{"two writers", RuleExclusive, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).released(50, 60)
			s.lock("two", 42, 30, 40, exclusive("a")).released(70, 80)
		}},
		{"two writers of one of several resources", RuleExclusive, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a"), exclusive("c"), shared("d")).released(50, 60)
			s.lock("two", 42, 30, 40, exclusive("b"), exclusive("c"), shared("d")).released(70, 80)
		}},
		{"a writer while a reader reads", RuleShared, []locking.Token{41, 43}, func(s *story) {
			s.lock("one", 41, 10, 20, shared("a")).released(50, 60)
			s.lock("two", 42, 10, 20, shared("a")).released(25, 30)
			s.lock("three", 43, 30, 40, exclusive("a")).released(70, 80)
		}},
		{"a reader while a writer writes", RuleShared, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).released(50, 60)
			s.lock("two", 42, 30, 40, shared("a")).released(70, 80)
		}},
		{"a writer beneath a reader", RuleHierarchy, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, shared("a")).released(50, 60)
			s.lock("two", 42, 30, 40, exclusive("a/b/c")).released(70, 80)
		}},
		{"more holders than slots", RuleSlots, []locking.Token{41, 42, 44}, func(s *story) {
			s.lock("one", 41, 10, 20, slot("a", 2)).released(50, 60)
			s.lock("two", 42, 10, 20, slot("a", 2)).released(50, 60)
			s.lock("three", 43, 10, 20, exclusive("b")).released(50, 60)
			s.lock("four", 44, 30, 40, slot("a", 2)).released(50, 60)
		}},
		{"two holders of one slot", RuleSlots, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, slot("a", 1)).released(50, 60)
			s.lock("two", 42, 30, 40, slot("a", 1)).released(50, 60)
		}},
		{"slots without a possible order", RuleSlots, []locking.Token{41, 43}, func(s *story) {
			s.lock("one", 41, 10, 20, slot("a", 3)).released(50, 60)
			s.lock("two", 42, 10, 20, slot("b", 1)).released(50, 60)
			s.lock("three", 43, 30, 40, slot("a", 1)).released(50, 60)
		}},
		{"a slot beside a reader", RuleModes, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, slot("a", 2)).released(50, 60)
			s.lock("two", 42, 30, 40, shared("a")).released(50, 60)
		}},
		{"a parent while its child is held", RuleHierarchy, []locking.Token{41, 42},
			func(s *story) {
				s.lock("one", 41, 10, 20, exclusive("a/b")).released(50, 60)
				s.lock("two", 42, 30, 40, exclusive("a")).released(70, 80)
			}},
		{"a child while its parent is held", RuleHierarchy, []locking.Token{41, 42},
			func(s *story) {
				s.lock("one", 41, 10, 20, exclusive("a")).released(50, 60)
				s.lock("two", 42, 30, 40, exclusive("a/b")).released(70, 80)
			}},
		{"a release before the acquisition", RuleRelease, []locking.Token{41}, func(s *story) {
			s.lock("one", 41, 30, 40, exclusive("a")).released(10, 20)
		}},
		{"a decreasing token", RuleToken, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 42, 10, 20, exclusive("a")).released(25, 26)
			s.lock("two", 41, 30, 40, exclusive("a/b")).released(50, 60)
		}},
		{"a decreasing token, by the order of releases", RuleToken, []locking.Token{41, 42},
			func(s *story) {
				s.lock("one", 42, 10, 20, exclusive("a")).released(25, 26)
				s.lock("two", 41, 10, 40, exclusive("a")).released(50, 60)
			}},
		{"a decreasing token, by the call for the claim", RuleToken,
			[]locking.Token{41, 42}, func(s *story) {
				s.lock("one", 42, 20, 30, exclusive("a")).released(40, 50)
				s.lock("two", 41, 10, 70, exclusive("a"))
				s.events[len(s.events)-1].From = ms(60)
			}},
		{"a repeated token", RuleToken, []locking.Token{41, 41}, func(s *story) {
			s.lock("one", 41, 10, 20, shared("a"))
			s.lock("two", 41, 10, 20, shared("b"))
		}},
		{"a commit after the release", RuleCommit, []locking.Token{41}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).released(30, 40).commit(50, 60)
		}},
		{"a commit while another lock is held", RuleCommit, []locking.Token{41, 42}, func(s *story) {
			s.confirmed("one", 20)
			s.lock("one", 41, 10, 20, exclusive("a")).event(900, Lost).commit(1200, 1300)
			s.lock("two", 42, 1100, 1150, exclusive("a")).released(1400, 1500)
		}},
		{"a lock taken from a live session", RuleExclusive, []locking.Token{41, 42},
			func(s *story) {
				s.confirmed("one", 20)
				s.lock("one", 41, 10, 30, exclusive("a"))
				s.lock("two", 42, 40, 900, exclusive("a")).released(1400, 1500)
			}},
		{"a lock taken from a renewed session", RuleExclusive, []locking.Token{41, 42},
			func(s *story) {
				s.confirmed("one", 20)
				s.lock("one", 41, 10, 30, exclusive("a"))
				s.confirmed("one", 500)
				s.lock("two", 42, 40, 1400, exclusive("a")).released(1500, 1600)
			}},
		{"a lock taken from a successor", RuleExclusive, []locking.Token{41, 42}, func(s *story) {
			s.add(Event{At: ms(20), Process: "one", Kind: Succeeds, Session: sessionOf("one"),
				Replica: "one"})
			s.confirmed("one", 20)
			s.lock("one", 41, 21, 30, exclusive("a"))
			s.lock("two", 42, 40, 900, exclusive("a")).released(1400, 1500)
		}},
		{"two locks with alternating writes", RuleExclusive, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).commit(21, 22).written(1, 5).commit(23, 100).
				written(8, 12)
			s.lock("two", 42, 10, 90, exclusive("a")).commit(91, 95).written(6, 7)
		}},
		{"two concurrent writes in one slot", RuleSlots, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, slot("a", 1)).commit(21, 100).written(1, 5)
			s.lock("two", 42, 10, 90, slot("a", 1)).commit(91, 95).written(4, 7)
		}},
		{"a write with the older token after the newer", RuleToken, []locking.Token{41, 42}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).commit(21, 100).written(8, 9)
			s.lock("two", 42, 10, 90, exclusive("a/b")).commit(91, 95).written(6, 7)
		}},
		{"a commit that is not in the ledger", RuleLedger, []locking.Token{41}, func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).commit(21, 22).written(1, 2).commit(23, 24)
		}},
		{"a refused commit that is in the ledger", RuleLedger, []locking.Token{41}, func(s *story) {
			k := s.lock("one", 41, 10, 20, exclusive("a"))
			k.commits++
			k.event(30, Commit).event(31, Superseded).written(1, 2)
		}},
		{"a commit with the token of another lock", RuleLedger, []locking.Token{41}, func(s *story) {
			k := s.lock("one", 41, 10, 20, exclusive("a")).commit(21, 22)
			k.token = 42
			k.written(1, 2)
		}},
		{"a commit of an unknown lock", RuleLedger, nil, func(s *story) {
			(&lockStory{story: s, process: "one", id: "one/7", token: 7, commits: 1}).written(1, 2)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &story{}
			surround(s)
			if err := s.check(t); err != nil {
				t.Fatalf("it is wrong already: %v", err)
			}
			test.test(s)
			err := s.check(t)
			var found *Violation
			if !errors.As(err, &found) {
				t.Fatalf("it is accepted: %v", err)
			}
			if found.Rule != test.rule {
				t.Errorf("got %v\nexpected: %s", err, test.rule)
			}
			var tokens []locking.Token
			for _, k := range found.Locks {
				tokens = append(tokens, k.Token)
				for _, part := range append(texts(k.Requests), k.ID, k.Process) {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q is missing in %v", part, err)
					}
				}
			}
			slices.Sort(tokens)
			if !slices.Equal(tokens, test.core) {
				t.Errorf("it shows the locks of tokens %v, want %v: %v", tokens, test.core, err)
			}
		})
	}
}

// surround adds correct events before, during and after the planted ones, also on the same
// resources.
func surround(s *story) {
	for i := range 40 {
		for j, name := range []string{"x", "x/y", "a/z/z"} {
			at := 2000 + 10*i + 3*j
			s.lock("busy", locking.Token(1000+3*i+j), at, at+1, exclusive(name)).
				released(at+1, at+2)
		}
		at := 2000 + 10*i
		s.lock("busy", locking.Token(5000+i), at, at+5, slot("w", 3)).released(at+25, at+26)
	}
}

// TestCorrectHistoriesAreAccepted checks histories that only look like violations.
func TestCorrectHistoriesAreAccepted(t *testing.T) {
	tests := []struct {
		name string
		test func(s *story)
	}{
		{"nothing", func(*story) {}},
		{"one lock after the other, with late answers", func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a")).released(30, 90)
			s.lock("two", 42, 10, 40, exclusive("a")).released(50, 60)
		}},
		{"readers, siblings and other slots", func(s *story) {
			s.lock("one", 41, 10, 20, shared("a"), exclusive("b/c"), slot("api", 2)).
				released(50, 60)
			s.lock("two", 42, 10, 20, shared("a/b"), exclusive("b/d"), slot("api", 2)).
				released(50, 60)
			s.lock("three", 43, 55, 57, slot("api", 2)).released(70, 80)
		}},
		{"a slot that is free by the number of one request", func(s *story) {
			s.lock("one", 41, 10, 20, slot("a", 1)).released(50, 60)
			s.lock("two", 42, 30, 40, slot("a", 2)).released(50, 60)
		}},
		{"the same with later answers and writes", func(s *story) {
			s.lock("one", 41, 10, 40, slot("a", 1)).commit(41, 45).written(20, 21).released(50, 60)
			s.lock("two", 42, 20, 30, slot("a", 2)).commit(31, 45).written(19, 22).released(50, 60)
		}},
		{"tokens of locks that do not conflict", func(s *story) {
			s.lock("one", 42, 10, 20, shared("a")).released(25, 26)
			s.lock("two", 41, 30, 40, shared("a")).released(50, 60)
			s.lock("three", 40, 30, 40, exclusive("b")).released(50, 60)
		}},
		{"locks without tokens", func(s *story) {
			s.lock("one", 0, 10, 20, exclusive("a")).released(25, 26)
			s.lock("two", 0, 30, 40, exclusive("a")).released(50, 60)
		}},
		{"a killed process whose lock is taken over after its session", func(s *story) {
			s.confirmed("one", 20)
			s.lock("one", 41, 10, 30, exclusive("a"))
			s.lock("two", 42, 40, 1025, exclusive("a")).released(1400, 1500)
		}},
		{"a paused process that commits nothing", func(s *story) {
			s.confirmed("one", 20)
			k := s.lock("one", 41, 10, 30, exclusive("a")).commit(31, 32).written(1, 2)
			s.lock("two", 42, 40, 1100, exclusive("a")).commit(1200, 1300).written(1100, 1110)
			k.commits++
			k.event(35, Commit).event(2000, Superseded).event(2001, Lost).event(2002, Release).
				event(2003, NotHeld)
		}},
		{"a commit whose answer died with its process", func(s *story) {
			k := s.lock("one", 41, 10, 30, exclusive("a"))
			k.commits++
			k.event(31, Commit).written(31, 32)
			s.lock("two", 42, 40, 1100, exclusive("a")).commit(1200, 1300).written(1100, 1110)
		}},
		{"a release whose answer was lost", func(s *story) {
			s.confirmed("one", 20)
			s.lock("one", 41, 10, 20, exclusive("a")).event(30, Release).event(40, ReleaseUnclear)
			s.lock("two", 42, 31, 35, exclusive("a")).released(50, 60)
		}},
		{"an ended session", func(s *story) {
			s.confirmed("one", 20)
			s.lock("one", 41, 10, 20, exclusive("a"))
			s.add(Event{At: ms(30), Process: "one", Kind: Ending, Session: sessionOf("one")})
			s.lock("two", 42, 31, 35, exclusive("a")).released(50, 60)
		}},
		{"a session that ended by its successor", func(s *story) {
			s.confirmed("one", 20)
			s.lock("one", 41, 10, 20, exclusive("a"))
			s.add(Event{At: ms(30), Process: "successor", Kind: Succeeds,
				Session: sessionOf("successor"),
				Replica: "one"})
			s.lock("two", 42, 31, 35, exclusive("a")).released(50, 60)
		}},
		{"a claim that was withdrawn without a release", func(s *story) {
			s.confirmed("one", 20)
			s.lock("one", 41, 10, 20, exclusive("a")).event(30, Lost)
			s.add(Event{At: ms(30), Process: "one", Kind: Returning, Token: 41})
			// the answer was lost
			s.add(Event{At: ms(500), Process: "one", Kind: Returning, Token: 41})
			s.lock("two", 42, 31, 35, exclusive("a")).released(50, 60)
		}},
		{"an acquisition whose answer was lost", func(s *story) {
			s.add(Event{At: ms(10), Process: "one", Kind: Acquire, Lock: "one/1",
				Requests: []Request{exclusive("a")}})
			s.add(Event{At: ms(20), Process: "one", Kind: AcquireUnclear, Lock: "one/1"})
			s.add(Event{At: ms(10), Process: "one", Kind: Acquire, Lock: "one/2",
				Requests: []Request{exclusive("a")}})
			s.lock("two", 42, 31, 35, exclusive("a")).released(50, 60)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &story{}
			surround(s)
			test.test(s)
			if err := s.check(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInvalidHistoriesAreRefused checks that inconsistent histories are errors and not violations.
func TestInvalidHistoriesAreRefused(t *testing.T) {
	tests := map[string]func(s *story){
		"a grant without a request": func(s *story) { s.add(Event{Kind: Granted, Lock: "one/1"}) },
		"a lock asked for twice": func(s *story) {
			s.lock("one", 41, 10, 20, exclusive("a"))
			s.lock("one", 41, 30, 40, exclusive("a"))
		},
		"an answer without a release": func(s *story) { s.lock("one", 41, 10, 20, exclusive("a")).event(30, Released) },
		"an answer without a commit":  func(s *story) { s.lock("one", 41, 10, 20, exclusive("a")).event(30, Committed) },
	}
	for name, test := range tests {
		s := &story{}
		test(s)
		if h, err := New(s.events); err == nil {
			t.Errorf("%s: it became %d locks", name, len(h.Locks))
		}
	}
}

// TestViolationText compares the text of a violation.
func TestViolationText(t *testing.T) {
	s := &story{}
	surround(s)
	s.confirmed("one", 20)
	s.lock("one", 41, 10, 30, exclusive("a"), shared("b")).commit(31, 32).written(31, 32)
	s.add(Event{At: ms(40), Process: "test", Kind: Note, Text: "process one is killed"})
	s.lock("two", 42, 50, 900, exclusive("a/b")).commit(901, 902).written(901, 902).
		released(1000, 1010)
	err := s.check(t)
	const want = `history is wrong: a lock above or beneath another: 2 of 162 locks can't all be right
  lock one/41 of one, token 41: exclusive path:a, shared path:b
  lock two/42 of two, token 42: exclusive path:a/b
  by the machine's monotonic clock:
      0.000000 s  one/41 asks
      0.020000 s  one/41 is granted
      0.021000 s  one/41 begins commit 1
      0.022000 s  one/41 ends commit 1: committed
      0.030000 s  process one is killed
      0.040000 s  two/42 asks
      0.890000 s  two/42 is granted
      0.891000 s  two/42 begins commit 1
      0.892000 s  two/42 ends commit 1: committed
      0.990000 s  two/42 releases
      1.000000 s  two/42 has released
      1.009000 s  one/41 is free at the earliest (it never released)`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
