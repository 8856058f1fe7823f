package engine

import "time"

const (
	// sequenceGap is the longest time between two items of a sequence. With an item of the next
	// day, a sequence could not be continued by items of the next seconds.
	sequenceGap = 5 * time.Second
	// blockLen is how many items a block of a sequence has.
	blockLen = 256
)

// sequence is a queue of items in the order of their times. When 100,000 jobs are due together, all
// of them leave one sequence and enter another one. So the items are in blocks, which are not
// copied.
type sequence struct {
	blocks [][]planned // all but the last one are full; empty if there is no item
	first  int         // the index of the first item in its block
	spare  []planned   // an empty block, or nil
	// the times of the first and the last item, if there is one
	head, end time.Time
}

func (s *sequence) isEmpty() bool { return len(s.blocks) == 0 }

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
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last]) == blockLen {
		block := s.spare
		if s.spare = nil; block == nil {
			block = make([]planned, 0, blockLen)
		}
		s.blocks, last = append(s.blocks, block), last+1
	}
	s.blocks[last] = append(s.blocks[last], p)
}

// pop removes and returns the first item. There must be one.
func (s *sequence) pop() planned {
	block := s.blocks[0]
	p := block[s.first]
	block[s.first] = planned{}
	if s.first++; s.first == len(block) {
		s.blocks[0], s.first, s.spare = nil, 0, block[:0]
		if s.blocks = s.blocks[1:]; s.isEmpty() {
			return p
		}
	}
	s.head = s.blocks[0][s.first].at()
	return p
}

// second returns the second item, or nil if there is none.
func (s *sequence) second() *planned {
	switch {
	case s.isEmpty():
	case s.first+1 < len(s.blocks[0]):
		return &s.blocks[0][s.first+1]
	case len(s.blocks) > 1:
		return &s.blocks[1][0]
	}
	return nil
}
