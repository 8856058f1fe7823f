package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// all returns the items, in no order.
func (t *timetable) all() []planned {
	t.putLast()
	all := slices.Clone(t.heap)
	for _, s := range t.sequences {
		for i, block := range s.blocks {
			if i == 0 {
				block = block[s.first:]
			}
			all = append(all, block...)
		}
	}
	return all
}

// A sequence returns its items in order, wherever its blocks begin and end.
func TestSequenceOfSeveralBlocks(t *testing.T) {
	var s sequence
	begin := time.Unix(1_000_000, 0)
	added, taken := 0, 0
	for _, change := range []int{1, -1, 3 * blockLen, -blockLen, 1 - blockLen, -1, blockLen - 1,
		2, -blockLen, -blockLen - 1} {
		for ; change > 0; change-- {
			at := begin.Add(time.Duration(added) * time.Millisecond)
			s.add(planned{scheduledAt: at}, at)
			added++
		}
		for ; change < 0; change++ {
			want := begin.Add(time.Duration(taken) * time.Millisecond)
			if second := s.second(); second == nil != (added-taken == 1) ||
				second != nil && !second.at().Equal(want.Add(time.Millisecond)) {
				t.Fatalf("second of %d items: got %v", added-taken, second)
			}
			if p := s.pop(); !p.at().Equal(want) {
				t.Fatalf("item %d: got %s, want %s", taken, p.at(), want)
			}
			taken++
		}
		if s.isEmpty() != (added == taken) {
			t.Fatalf("%d of %d items were taken: got empty: %t", taken, added, s.isEmpty())
		}
	}
	if !s.isEmpty() {
		t.Errorf("%d items are left", added-taken)
	}
}

// The earliest item is always the next one, whether it is in a sequence or in the heap. None is
// lost.
func TestTimetableIsSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	delays := []time.Duration{0, secondAfter, 2 * secondAfter, time.Second, time.Second,
		time.Second, time.Minute, 24 * time.Hour}
	for size := range 200 {
		var table timetable
		var kept []time.Time // what the table has, sorted
		now := time.Unix(1_000_000, 0)
		add := func(delay time.Duration) {
			at := now.Add(delay)
			table.put(planned{scheduledAt: at})
			i, _ := slices.BinarySearchFunc(kept, at, time.Time.Compare)
			kept = slices.Insert(kept, i, at)
		}
		for range size {
			add(delays[random.IntN(len(delays))])
		}
		for step := 0; len(kept) > 0; step++ {
			if next := table.next(); !next.Equal(kept[0]) {
				t.Fatalf("size %d, step %d: next is %s, want %s", size, step, next, kept[0])
			}
			first, second := table.firstTwo()
			if len(kept) > 1 && !second.Equal(kept[1]) || len(kept) == 1 && !second.IsZero() ||
				!first.at().Equal(kept[0]) {
				t.Fatalf("size %d, step %d: first are %s and %s, want %s", size, step, first.at(),
					second, kept[:min(len(kept), 2)])
			}
			got := table.pop()
			if !got.at().Equal(kept[0]) {
				t.Fatalf("size %d, step %d: got %+v, want %s", size, step, got, kept[0])
			}
			now, kept = got.at(), kept[1:]
			for range random.IntN(3) {
				if step < 5*size {
					add(delays[random.IntN(len(delays))] + time.Duration(random.IntN(2))*
						time.Duration(random.IntN(1000))*time.Millisecond)
				}
			}
		}
		if next, left := table.next(), table.all(); !next.IsZero() || len(left) != 0 {
			t.Errorf("size %d: %d items are left, the next at %s", size, len(left), next)
		}
	}
}

// Jobs that are due each second are not in the heap, although this replica leaves some of them to
// others for a time that depends on its rank, and although other jobs are planned among them.
func TestJobsWithTheSameScheduleAreInSequences(t *testing.T) {
	const all = 300
	random := rand.New(rand.NewPCG(1, 2))
	var table timetable
	start := time.Unix(1_000_000, 0)
	for range all {
		table.put(planned{scheduledAt: start})
	}
	soon := start.Add(time.Minute)
	var last planned
	for i := range 10 * all {
		last = table.pop()
		if p := last; !p.ranked {
			next := p.scheduledAt.Add(time.Second)
			table.put(planned{scheduledAt: next})
			p.rank = int16(random.IntN(sharedRank))
			p.ranked, p.after = true, rankDelay(int(p.rank))
			table.put(p)
		}
		if i%100 == 0 {
			other := soon.Add(time.Duration(random.IntN(24*60)) * time.Minute)
			for range 3 {
				table.put(planned{scheduledAt: other})
			}
		}
		early := 0
		for _, p := range table.heap {
			if p.at().Before(soon) {
				early++
			}
		}
		if early > 0 {
			t.Fatalf("%s after the start, %d items of each second are in the heap",
				last.at().Sub(start), early)
		}
	}
	if !last.at().After(start.Add(2 * time.Second)) {
		t.Fatalf("the last item was of %s", last.at())
	}
}

// The scheduled time that was planned last is in the timetable.
func TestTimetableHasTheLastItem(t *testing.T) {
	var table timetable
	e := entryEvery(t, time.Second, jobs.MisfireSkip)
	table.plan(e, time.Unix(1, 0))
	if p := table.pop(); p.entry != e {
		t.Errorf("got %+v", p)
	}
	table.plan(e, time.Time{})
	if next := table.next(); !next.IsZero() {
		t.Errorf("got an item at %s, want none", next)
	}
}

// A job is planned again, as by each tick, with a time in a sequence or in the heap.
func TestTimetableMovesWithoutAllocations(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, time.Minute} {
		var table timetable
		for i := range 100 {
			table.put(planned{scheduledAt: time.Unix(int64(i), 0)})
		}
		move := func() {
			p := table.pop()
			p.scheduledAt = p.scheduledAt.Add(interval)
			table.put(p)
		}
		for range 1000 {
			move()
		}
		if allocations := testing.AllocsPerRun(1000, move); allocations != 0 {
			t.Errorf("%s: got %v allocations, want none", interval, allocations)
		}
	}
}

func BenchmarkTimetable(b *testing.B) {
	for _, distinct := range []bool{false, true} {
		name := "same second"
		if distinct {
			name = "distinct times"
		}
		b.Run(name, func(b *testing.B) {
			var table timetable
			start := time.Unix(1_000_000, 0)
			for i := range 3000 {
				p := planned{scheduledAt: start}
				if distinct {
					p.after = time.Duration(i*7919%3000) * time.Second / 3000
				}
				table.put(p)
			}
			for b.Loop() {
				p := table.pop()
				p.scheduledAt = p.scheduledAt.Add(time.Second)
				table.put(p)
			}
		})
	}
}
