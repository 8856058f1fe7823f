package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// kind is what a message says of its train.
type kind string

const (
	created kind = "created"
	moved   kind = "moved"
	deleted kind = "deleted"
)

// message is one event. A train's messages are numbered from 1.
type message struct {
	id     int64
	train  string
	number int
	kind   kind
	from   string // of moved and deleted
	to     string // of created and moved
	tries  int    // since it last came to the front of the queue
}

// counts are what a location shows.
type counts struct{ created, arrived, departed, deleted int }

// traffic returns the messages of all trains, mixed, each train's in order.
func traffic(o options) []message {
	random := rand.New(rand.NewPCG(o.seed, 0))
	at := make(map[string]string, o.trains)
	next := make(map[string]int, o.trains)
	var order []string
	for i := range o.trains {
		name := fmt.Sprintf("train-%d", i+1)
		for range o.moves + 2 {
			order = append(order, name)
		}
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	all := make([]message, len(order))
	for i, train := range order {
		next[train]++
		m := message{id: int64(i + 1), train: train, number: next[train], kind: moved,
			from: at[train]}
		switch m.number {
		case 1:
			m.kind = created
			m.to = location(random.IntN(o.locations))
		case o.moves + 2:
			m.kind = deleted
		default:
			for m.to = m.from; m.to == m.from; {
				m.to = location(random.IntN(o.locations))
			}
		}
		at[train] = m.to
		all[i] = m
	}
	return all
}

func location(i int) string { return fmt.Sprintf("station-%d", i+1) }

// onePass is what the locations show after the messages, taken one by one.
func onePass(messages []message) map[string]counts {
	all := map[string]counts{}
	for _, m := range messages {
		for name, c := range m.effects() {
			sum := all[name]
			sum.created, sum.arrived = sum.created+c.created, sum.arrived+c.arrived
			sum.departed, sum.deleted = sum.departed+c.departed, sum.deleted+c.deleted
			all[name] = sum
		}
	}
	return all
}

// effects are what the message adds to the counts of its locations.
func (m message) effects() map[string]counts {
	switch m.kind {
	case created:
		return map[string]counts{m.to: {created: 1}}
	case deleted:
		return map[string]counts{m.from: {deleted: 1}}
	default:
		return map[string]counts{m.from: {departed: 1}, m.to: {arrived: 1}}
	}
}

// locations are the names of the message's locations, sorted.
func (m message) locations() []string { return slices.Sorted(maps.Keys(m.effects())) }
