package access

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

const (
	// eventsPerActor bounds the entries of the audit log that one actor can cause in a minute.
	eventsPerActor = 5
	// eventsPerMinute bounds the entries of one kind of all actors. First entries of actors may
	// exceed it, so that a few busy actors do not hide the others.
	eventsPerMinute = 30
	// firstEventsPerMinute bounds the entries of one kind with those that exceed eventsPerMinute.
	firstEventsPerMinute = 120
	// maxListedActors bounds the actors that an entry lists.
	maxListedActors = 10
	// maxCountedActors bounds the memory of an actorBudget. Further actors are counted together.
	maxCountedActors = 1000

	otherActors = "(others)"
)

// actorBudget bounds the entries of each actor, and of all actors, in each minute. It is not safe
// for concurrent use.
type actorBudget struct {
	startedAt time.Time // the current minute
	written   int
	actors    map[string]*actorCount
}

type actorCount struct{ written, leftOut int }

// leftOut is the number of entries of a minute that were left out, and of which actors: those with
// the most entries first.
type leftOut struct {
	Entries int
	Actors  []leftOutActor
}

type leftOutActor struct {
	Actor   string `json:"actor"`
	Entries int    `json:"entries"`
}

// take reports whether an entry of the actor may be written. The first entry of a minute gets what
// was left out before it.
func (b *actorBudget) take(now time.Time, actor string) (allowed bool, before leftOut) {
	if now.Sub(b.startedAt) >= time.Minute {
		before = b.leftOut()
		b.startedAt, b.written, b.actors = now, 0, make(map[string]*actorCount)
	}
	one := b.count(actor)
	most := eventsPerMinute
	if one.written == 0 {
		most = firstEventsPerMinute
	}
	if one.written >= eventsPerActor || b.written >= most {
		one.leftOut++
		return false, leftOut{}
	}
	one.written++
	b.written++
	return true, before
}

func (b *actorBudget) count(actor string) *actorCount {
	if _, known := b.actors[actor]; !known && len(b.actors) >= maxCountedActors {
		actor = otherActors
	}
	if b.actors[actor] == nil {
		b.actors[actor] = new(actorCount)
	}
	return b.actors[actor]
}

func (b *actorBudget) leftOut() (all leftOut) {
	for actor, one := range b.actors {
		if one.leftOut > 0 {
			all.Entries += one.leftOut
			all.Actors = append(all.Actors, leftOutActor{words.OneLine(actor, 200), one.leftOut})
		}
	}
	slices.SortFunc(all.Actors, func(a, b leftOutActor) int {
		return cmp.Or(b.Entries-a.Entries, cmp.Compare(a.Actor, b.Actor))
	})
	all.Actors = all.Actors[:min(len(all.Actors), maxListedActors)]
	return all
}
