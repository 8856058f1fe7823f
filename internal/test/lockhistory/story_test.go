package lockhistory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// story is the history of a test. Its times are in milliseconds.
type story struct {
	events []Event
	ledger []Written
}

// lockStory is one lock of a story.
type lockStory struct {
	*story
	process, id string
	token       locking.Token
	commits     int
}

func ms(n int) int64 { return int64(n) * time.Millisecond.Nanoseconds() }

func (s *story) add(e Event) { s.events = append(s.events, e) }

// lock adds an acquisition with its call and answer. Lock IDs are unique by token.
func (s *story) lock(process string, token locking.Token, call, answer int,
	requests ...Request) *lockStory {
	id := fmt.Sprintf("%s/%d", process, token)
	s.add(Event{At: ms(call), Process: process, Kind: Acquire, Lock: id, Requests: requests})
	s.add(Event{At: ms(answer), Process: process, Kind: Granted, Lock: id, Token: token,
		Session: sessionOf(process)})
	return &lockStory{story: s, process: process, id: id, token: token}
}

func sessionOf(process string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(process)) }

func (k *lockStory) event(at int, kind Kind) *lockStory {
	k.add(Event{At: ms(at), Process: k.process, Kind: kind, Lock: k.id, Number: k.commits})
	return k
}

func (k *lockStory) released(call, answer int) *lockStory {
	return k.event(call, Release).event(answer, Released)
}

// commit adds a fenced transaction that took effect.
func (k *lockStory) commit(call, answer int) *lockStory {
	k.commits++
	return k.event(call, Commit).event(answer, Committed)
}

// written adds a row to the ledger, with times in its own milliseconds.
func (k *lockStory) written(fenced, committed int) *lockStory {
	k.ledger = append(k.ledger, Written{
		Lock: k.id, Number: k.commits, Token: k.token, Fenced: int64(fenced) * 1000,
		Committed: int64(committed) * 1000,
	})
	return k
}

// confirmed adds a renewal of the process's session with a TTL of a second.
func (s *story) confirmed(process string, at int) {
	s.add(Event{At: ms(at), Process: process, Kind: Confirmed, Session: sessionOf(process),
		TTL: time.Second.Nanoseconds(), Replica: process})
}

// check returns the violation of the story, with its events in reverse order. The check must sort
// events by time. A nil ledger means no ledger.
func (s *story) check(t testing.TB) error {
	t.Helper()
	backwards := slices.Clone(s.events)
	slices.Reverse(backwards)
	h, err := New(backwards)
	if err != nil {
		t.Fatal(err)
	}
	return h.Check(s.ledger)
}

func on(name string, mode locking.Mode, slots int) Request {
	resource, err := locking.Path(name)
	if err != nil {
		panic(err)
	}
	return Request{locking.Request{Resource: resource, Mode: mode, Slots: slots}}
}

func exclusive(name string) Request       { return on(name, locking.Exclusive, 0) }
func shared(name string) Request          { return on(name, locking.Shared, 0) }
func slot(name string, slots int) Request { return on(name, locking.Slotted, slots) }
