package engine

import "time"

const (
	// sequenceGap is the longest time between two items of a sequence. With an item of the next
	// day, a sequence could not be continued by items of the next seconds.
	sequenceGap = 5 * time.Second
	// sequenceKeeps is the largest capacity that an empty sequence keeps, in items.
	sequenceKeeps = 8192
)

// sequence is a queue of items in the order of their times.
type sequence struct {
	items []planned
	first int // the index of the first item
	// the times of the first and the last item, if there is one
	head, end time.Time
}

func (s *sequence) isEmpty() bool { return s.first == len(s.items) }

// isContinuedBy reports whether an item of this time may follow the last one. The sequence must not
// be empty.
func (s *sequence) isContinuedBy(at time.Time) bool {
	gap := at.Sub(s.end)
	return gap >= 0 && gap <= sequenceGap
}

// add adds an item of this time that is not before the last one.
func (s *sequence) add(p planned, at time.Time) {
	if s.end = at; s.isEmpty() {
		s.head = at
	}
	if s.first > len(s.items)/2 && len(s.items) == cap(s.items) {
		n := copy(s.items, s.items[s.first:])
		clear(s.items[n:])
		s.items, s.first = s.items[:n], 0
	}
	s.items = append(s.items, p)
}

// pop removes and returns the first item. There must be one.
func (s *sequence) pop() planned {
	p := s.items[s.first]
	s.items[s.first] = planned{}
	if s.first++; s.isEmpty() {
		if s.first = 0; cap(s.items) > sequenceKeeps {
			s.items = nil
		}
		s.items = s.items[:0]
	} else {
		s.head = s.items[s.first].at()
	}
	return p
}
