package clustertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// killTarget is the firing at which a victim is killed: the first one that adds its gate while the
// target is armed. The victim's proxies report the requests of all firings to it. A firing that
// could not reach memcached has added no gate, so its first request is that for its claim.
type killTarget struct {
	mu       sync.Mutex
	begun    []time.Time // scheduled times of all firings that have sent a request
	locked   bool        // between the add of the locks and their removal
	armed    bool
	at       time.Time     // scheduled time of the target, zero before its gate is added
	reached  bool          // the target has reached the step
	disarmed chan struct{} // receives a value when another firing has requested its claim
}

func newKillTarget() *killTarget { return &killTarget{disarmed: make(chan struct{}, 1)} }

// fate records what a piece of a request says about firings, and reports whether it is the step at
// which the victim is killed. The result Drop keeps a firing from starting during the kill.
func (k *killTarget) fate(v *victim, piece []byte, kills bool) (fate servertest.Fate, isStep bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case gateAdd(v, piece):
		k.addGate(gateTime(v, piece))
	case locksAdd(v, piece):
		k.locked = true
	case locksRemoval(v, piece):
		k.locked = false
	case start(v, piece):
		if k.reached {
			return servertest.Drop, false
		}
		k.addStart(startTimes(piece))
	}
	if !kills || k.reached || k.at.IsZero() || !v.step.request(v, piece) {
		return servertest.Pass, false
	}
	k.reached = true
	if v.step.answered {
		return servertest.CutReply, true
	}
	return servertest.Drop, true
}

func (k *killTarget) addGate(at time.Time) {
	if k.begin(at) && k.armed && k.at.IsZero() {
		k.at = at
	}
}

// addStart disarms the target if the request is for the claim of another firing, which could be
// running when the victim is killed.
func (k *killTarget) addStart(times []time.Time) {
	for _, at := range times {
		k.begin(at)
	}
	if k.armed && slices.ContainsFunc(times, func(at time.Time) bool { return !at.Equal(k.at) }) {
		k.armed, k.at = false, time.Time{}
		k.disarmed <- struct{}{}
	}
}

// begin reports whether this is the first request of the firing.
func (k *killTarget) begin(at time.Time) bool {
	if slices.ContainsFunc(k.begun, at.Equal) {
		return false
	}
	k.begun = append(k.begun, at)
	return true
}

// time returns the scheduled time of the target.
func (k *killTarget) time() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at
}

// firings returns the scheduled times of all firings that have begun.
func (k *killTarget) firings() []time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.begun)
}

// arm makes the next firing the target, unless more firings than these have begun or locks are
// held.
func (k *killTarget) arm(begun int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = begun == len(k.begun) && !k.locked
	return k.armed
}

// startTimes returns the scheduled times in a request for claims: the first list of times in it.
func startTimes(piece []byte) []time.Time {
	var header []byte // one dimension, no null
	for _, n := range []uint32{1, 0, pgtype.TimestamptzOID} {
		header = binary.BigEndian.AppendUint32(header, n)
	}
	_, list, found := bytes.Cut(piece, header)
	if !found || len(list) < 8 {
		panic("the request for claims has changed")
	}
	const size = 4 + 8 // the length of an element, and microseconds since the year 2000
	times := make([]time.Time, binary.BigEndian.Uint32(list))
	list = list[8:]
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range times {
		micros := binary.BigEndian.Uint64(list[i*size+4:])
		times[i] = epoch.Add(time.Duration(micros) * time.Microsecond)
	}
	return times
}

// TestKillTarget has firings that add no gate, because memcached did not answer in time.
func TestKillTarget(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second, third := first.Add(3*time.Second), first.Add(6*time.Second)
	gate := func(at time.Time) []byte { return gateRequest("job-v007", at) }
	claims := func(times ...time.Time) []byte { return claimsRequest(t, "job-v007", times) }
	type request struct {
		piece []byte
		want  servertest.Fate
		step  bool
	}
	for name, c := range map[string]struct {
		step   string
		before []request // the target is armed
		after  []request
		begun  int // the firings that had ended when the target was armed
		armed  bool
		end    bool // the target is disarmed
	}{
		"the next firing": {
			step: "start not received", begun: 1, armed: true,
			before: []request{{piece: gate(first)}, {piece: claims(first)}},
			after:  []request{{piece: gate(second)}, {claims(second), servertest.Drop, true}},
		},
		"a claim without a gate before": {
			step: "gate added", before: []request{{piece: gate(first)}, {piece: claims(second)}},
			begun: 1,
		},
		"a claim without a gate after": {
			step: "locks added", before: []request{{piece: gate(first)}}, begun: 1, armed: true,
			after: []request{{piece: claims(second)}, {piece: gate(third)},
				{piece: []byte("add app/v007_a T30\r\n")}},
			end: true,
		},
		"a claim beside that of the target": {
			step: "start granted, reply lost", before: []request{{piece: gate(first)}}, begun: 1,
			armed: true, after: []request{{piece: gate(third)}, {piece: claims(second, third)}},
			end: true,
		},
		"a claim during the kill": {
			step: "gate added", before: []request{{piece: gate(first)}}, begun: 1, armed: true,
			after: []request{{gate(third), servertest.CutReply, true},
				{piece: claims(second), want: servertest.Drop}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := &victim{name: "v007", target: newKillTarget()}
			v.step = killSteps[slices.IndexFunc(killSteps, func(s killStep) bool {
				return s.name == c.step
			})]
			send := func(requests []request) {
				for i, r := range requests {
					got, step := v.target.fate(v, r.piece, true)
					if got != r.want || step != r.step {
						t.Errorf("request %d: got %d, %t, want %d, %t", i, got, step, r.want,
							r.step)
					}
				}
			}
			send(c.before)
			if armed := v.target.arm(c.begun); armed != c.armed {
				t.Fatalf("armed: %t, want %t", armed, c.armed)
			}
			send(c.after)
			if disarmed := len(v.target.disarmed) > 0; disarmed != c.end {
				t.Errorf("disarmed: %t, want %t", disarmed, c.end)
			}
		})
	}
}

func gateRequest(job string, at time.Time) []byte {
	return fmt.Appendf(nil, "add holdfast:gate:%s@%d@1 0 60 1\r\nx\r\n", job, at.UnixMicro())
}

// claimsRequest returns the parameters of a request for claims, as the driver encodes them.
func claimsRequest(t *testing.T, job string, times []time.Time) []byte {
	t.Helper()
	piece := pgParameter("job:" + job)
	piece, err := pgtype.NewMap().Encode(pgtype.TimestamptzArrayOID, pgtype.BinaryFormatCode, times,
		piece)
	if err != nil {
		t.Fatal(err)
	}
	return piece
}
