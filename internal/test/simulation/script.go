package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Action is a kind of event in the cluster.
type Action string

// The actions. Those of the first group concern one replica.
const (
	// the process dies without an end of its session; another process begins after For
	Die       Action = "die"
	Restart   Action = "restart"   // a clean stop; another process begins after For
	Partition Action = "partition" // the replica reaches neither store nor locks
	Cut       Action = "cut"       // the replica does not reach the store
	Blind     Action = "blind"     // the replica does not reach the locks
	Rough     Action = "rough"     // the connection to the store is slow and loses replies

	Outage  Action = "outage"  // the store is down
	NoLocks Action = "nolocks" // the locks are unavailable to all replicas
	Flush   Action = "flush"   // the locks lose all keys
	Deploy  Action = "deploy"  // each replica in turn restarts with the next table
	Retreat Action = "retreat" // a deploy reaches some replicas and is rolled back
	Trigger Action = "trigger" // an operator triggers a job, or repeats an earlier trigger
	Pause   Action = "pause"   // a job, a group or everything is paused for a time
	Cancel  Action = "cancel"  // an operator cancels a run
	Release Action = "release" // an operator releases a lock
	// an operator adds a job or changes an added one; or two operators do it at once
	Put    Action = "put"
	Remove Action = "remove" // an operator removes an added job
	Drain  Action = "drain"  // a replica is drained for a time
)

// Event is one event in the cluster.
type Event struct {
	After   time.Duration // since the start
	Action  Action
	Replica int           // index of the replica, from 0
	For     time.Duration // duration, if the action has one
	Deploy  int           // index of the table of a deploy
	Pick    uint64        // selects the job or run of an operator's action
}

// String returns the event as text.
func (e Event) String() string {
	return fmt.Sprintf("%s %s of replica %d for %s", e.After, e.Action, e.Replica, e.For)
}

// Rate is how often an action is drawn.
type Rate struct {
	Action        Action
	Number        float64 // on average, over the whole time
	Short, Longer time.Duration
}

// yearRates are the rates of a year. Most faults are short, some are long.
var yearRates = []Rate{
	{Die, 60, time.Second, 6 * time.Hour}, {Restart, 40, time.Second, 10 * time.Minute},
	{Partition, 30, time.Second, 3 * time.Hour},
	{Cut, 30, time.Second, 2 * time.Hour}, {Blind, 20, time.Second, 24 * time.Hour},
	{Rough, 30, time.Hour, 48 * time.Hour},
	{Outage, 16, time.Second, 30 * time.Minute}, {Outage, 2, 12 * time.Hour, 40 * time.Hour},
	{NoLocks, 20, time.Second, 12 * time.Hour},
	{Flush, 50, 0, 0}, {Retreat, 4, time.Minute, 2 * time.Hour}, {Trigger, 300, 0, 0},
	{Pause, 60, time.Minute, 5 * 24 * time.Hour}, {Cancel, 60, 0, 0},
	{Release, 20, 0, 0}, {Put, 80, 0, 0}, {Remove, 20, 0, 0},
	{Drain, 40, time.Minute, 12 * time.Hour},
}

// Script is the list of events, in order.
type Script []Event

// hourRates are the rates of an hour with many faults.
var hourRates = []Rate{
	{Die, 8, time.Second, 5 * time.Minute}, {Restart, 6, time.Second, time.Minute},
	{Partition, 6, time.Second, 3 * time.Minute},
	{Cut, 6, time.Second, 2 * time.Minute}, {Blind, 4, time.Second, 5 * time.Minute},
	{Rough, 6, time.Minute, 10 * time.Minute},
	{Outage, 4, time.Second, time.Minute}, {Outage, 1, time.Minute, 10 * time.Minute},
	{NoLocks, 4, time.Second, 5 * time.Minute},
	{Flush, 6, 0, 0}, {Retreat, 1, 10 * time.Second, 5 * time.Minute}, {Trigger, 30, 0, 0},
	{Pause, 6, time.Second, 5 * time.Minute}, {Cancel, 15, 0, 0},
	{Release, 5, 0, 0}, {Put, 12, 0, 0}, {Remove, 4, 0, 0},
	{Drain, 6, time.Second, 4 * time.Minute},
}

// Often multiplies the rates: of a year, or of an hour if the jobs are dense.
type Often struct {
	Faults float64
	People float64 // factor for the actions of operators
}

// of returns the factor for the action.
func (o Often) of(action Action) float64 {
	switch action {
	case Trigger, Pause, Cancel, Release, Put, Remove, Drain:
		return o.People
	default:
		return o.Faults
	}
}

// NewScript draws the events of a cluster within the time, with deploys of all tables but the
// first.
func NewScript(seed uint64, replicas, tables int, within time.Duration, often Often,
	dense bool) Script {
	random := rand.New(rand.NewPCG(seed, 2))
	var script Script
	rates, rollout := yearRates, 10*time.Minute
	if dense {
		rates, rollout = hourRates, time.Minute
	}
	somewhen := func() time.Duration { return time.Duration(random.Float64() * float64(within)) }
	for _, r := range rates {
		number := r.Number * often.of(r.Action)
		n := int(number)
		if random.Float64() < number-float64(n) {
			n++
		}
		for range n {
			lasts := r.Short + time.Duration(random.ExpFloat64()*float64(r.Longer-r.Short)/3)
			lasts = min(lasts, max(r.Longer, r.Short), within/4)
			script = append(script, Event{After: somewhen(), Action: r.Action,
				Replica: random.IntN(replicas), For: lasts, Pick: random.Uint64()})
		}
	}
	for deploy := 1; deploy < tables; deploy++ { // in order, one after the other
		after := time.Duration(float64(within) * (float64(deploy) - 0.5 +
			0.4*random.Float64()) / float64(tables))
		script = append(script, Event{After: after, Action: Deploy,
			For: time.Duration(random.Int64N(int64(rollout))), Deploy: deploy})
	}
	slices.SortStableFunc(script, func(a, b Event) int { return cmp.Compare(a.After, b.After) })
	return script
}
