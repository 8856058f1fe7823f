package lockingtest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
)

func gateTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"OneWins":       testGateOneWins,
		"LostReplies":   testGateLostReplies,
		"DelayedAdd":    testGateDelayedAdd,
		"Errors":        testGateErrors,
		"IsNoLock":      testGateIsNoLock,
		"ForeignValues": testGateForeignValues,
		"Together":      testGatesTogether,
		"TogetherFail":  testGatesTogetherFail,
	}
}

func testGateOneWins(t *testing.T, f Fixture) {
	s := newStore(t, f)
	replicas := []*replica{s.join(t, "replica-1"), s.join(t, "replica-2"), s.join(t, "replica-3")}
	for round := range 20 {
		var won atomic.Int64
		inParallel(12, func(i int) {
			through, err := replicas[i%3].Gate(t.Context(), fmt.Sprintf("sales@%d", round),
				time.Minute)
			if err != nil {
				t.Errorf("gate: %v", err)
			}
			if through {
				won.Add(1)
			}
		})
		if won.Load() != 1 {
			t.Errorf("%d callers passed the gate, want 1", won.Load())
		}
	}
}

func testGateLostReplies(t *testing.T, f Fixture) {
	for _, fault := range []Fault{LoseReply, LoseRequest} {
		s := newStore(t, f)
		a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
		name := fmt.Sprintf("firing %d", fault)
		a.faults.Once(OpAdd, fault)
		if won, err := a.Gate(t.Context(), name, time.Minute); !won || err != nil {
			t.Errorf("the caller's own key refused it: %v, %v", won, err)
		}
		b.faults.Once(OpAdd, fault)
		if won, err := b.Gate(t.Context(), name, time.Minute); won || err != nil {
			t.Errorf("a second caller passed the gate: %v, %v", won, err)
		}
	}
}

// testGateDelayedAdd makes the first add arrive between the get and the second add.
func testGateDelayedAdd(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	adds := 0
	a.faults.Choose(func(op Op, _ string) Fault {
		switch {
		case op == OpAdd:
			if adds++; adds == 1 {
				return Late
			}
		case op == OpGet && adds == 1:
			a.faults.afterNext(a.faults.Land)
		}
		return None
	})
	if won, err := a.Gate(t.Context(), "late", time.Minute); !won || err != nil {
		t.Errorf("the caller's own delayed add refused it: %v, %v", won, err)
	}
	if adds != 2 {
		t.Errorf("%d adds, want 2", adds)
	}
}

func testGateErrors(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	for _, fault := range []Fault{Unavailable, Full} {
		a.faults.Always(fault)
		if won, err := a.Gate(t.Context(), "sales", time.Minute); won || err == nil {
			t.Errorf("fault %d: got %v, %v, want an error", fault, won, err)
		}
	}
	a.faults.Choose(func(op Op, _ string) Fault {
		if op == OpGet {
			return Unavailable
		}
		return LoseReply
	})
	_, err := a.Gate(t.Context(), "sales", time.Minute)
	check(t, "gate whose outcome can't be read", err, locking.ErrUnclear)
	a.faults.Choose(nil)
	_, err = a.Gate(t.Context(), "", time.Minute)
	check(t, "gate without a name", err, locking.ErrBadName)
	for _, ttl := range []time.Duration{0, time.Second - 1, 31 * 24 * time.Hour, -time.Second} {
		if _, err := a.Gate(t.Context(), "ttl", ttl); err == nil ||
			errors.Is(err, locking.ErrUnavailable) {
			t.Errorf("%v: got error %v, want one that is not ErrUnavailable", ttl, err)
		}
	}
}

func testGateIsNoLock(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	lock := a.lock(t, "job", "sales")
	for _, name := range []string{"sales", "path:sales", strings.Repeat("n", 1000),
		"job with spaces @ 2026-01-01"} {
		if won, err := a.Gate(t.Context(), name, time.Minute); !won || err != nil {
			t.Errorf("gate %.20s: got %v (%v), want it won", name, won, err)
		}
		if won, err := a.Gate(t.Context(), name, time.Minute); won || err != nil {
			t.Errorf("%.20s, a second time: %v, %v", name, won, err)
		}
	}
	check(t, "release", lock.Release(t.Context()), nil)
}

func testGateForeignValues(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	check(t, "add", s.Add(t.Context(), "test:gate:sales", []byte("garbage"), lease), nil)
	if won, err := a.Gate(t.Context(), "sales", time.Minute); won || err != nil {
		t.Errorf("gate behind garbage: got %v (%v), want it lost", won, err)
	}
}
