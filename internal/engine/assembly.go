package engine

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// New returns a scheduler, or every mistake in its options and jobs. It does not call the store;
// Run does.
func New(o Options) (*Scheduler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	registry := o.Registry.With(o.Middleware)
	table, err := newCronTable(o.Registry, o.Middleware, o.Jobs)
	if err != nil {
		return nil, err
	}
	o.Jobs = nil // the table has copies
	log := o.Log.With().Str("replica", o.Replica).Logger()
	clock := &clusterClock{}
	s := &Scheduler{
		options: o, log: log, registry: registry, table: table, clock: clock,
		clockLimit: &clockLimit{clock: clock, most: o.MaxClockOffset, log: log},
		workers:    newWorkers(o.Workers), active: newActive(),
		ready:     newReady(o.Replica, cmp.Or(o.CatchUp, max(o.Workers/4, 1))),
		eventBus:  newEventBus(o.Observer, o.Listeners, log),
		intervals: defaultIntervals(), paces: newPaces(o.Unpaced), stopping: make(chan struct{}),
		overtime: make(chan struct{}),
	}
	// each of these needs only those before it
	s.wakes = newWakes()
	s.ready.adopt = s.wakes.signal
	s.events = &events{replica: o.Replica, clock: clock, runs: o.Store, bus: s.eventBus}
	s.activation = newActivation(o.Store, table, log)
	s.backfills = &backfiller{store: o.Store, table: table, log: log}
	s.keeper = s.newKeeper()
	s.controlState = s.newControlState()
	s.ranking = &ranking{changed: make(chan struct{}, 1)}
	s.lookout = newLookout(o.Locker, o.Store, s.ranking, s.ready, s.workers, clock, log)
	s.dispatcher = s.newDispatcher()
	s.retention = &retention{store: o.Store, keeper: s.keeper, keep: o.KeepHistory,
		keepTriggered: o.KeepTriggered, log: log}
	s.sealer = &sealer{store: o.Store, enabled: o.SealAudit, log: log}
	s.drift = newDrift(o.Store, o.Replica, o.LockServers, table.hash, clock.now, log)
	s.drift.compared, s.drift.seen = s.rank, s.heartbeats.note
	s.keeper.heard = s.heard
	s.upkeep = s.newUpkeep()
	s.triggers = &triggers{store: o.Store, keeper: s.keeper, adopter: s.upkeep.adopter,
		stopping: s.stopping}
	return s, nil
}

// heard passes the reply to a heartbeat to the control state, the upkeep and the comparison of the
// sessions.
func (s *Scheduler) heard(at time.Time, session uuid.UUID, reply storage.HeartbeatReply) {
	s.controlState.heard(reply.Generation, reply.Draining)
	s.wakes.heard(reply.Adoptable)
	s.drift.offer(sessionList{at, session, reply.Open})
}

// rank ranks a session of this replica among the live ones.
func (s *Scheduler) rank(session uuid.UUID, live []storage.ReplicaView) {
	s.ranking.update(live, session, time.Now().Add(s.options.SessionTTL))
}

func (s *Scheduler) newKeeper() *keeper {
	o := s.options
	return newKeeper(&keeper{
		store: o.Store, activation: s.activation, revoke: o.Store.Revoke, replica: o.Replica,
		replaceEarlier: o.ReplaceEarlier, version: o.Version, servers: o.LockServers,
		hash: s.table.hash,
		replicaStatus: func() storage.ReplicaStatus {
			return replicaStatus(s.workers, s.clock, s.clockLimit, o.Databases, s.isStopping())
		},
		interval: o.Heartbeat, ttl: o.SessionTTL, clock: s.clock, active: s.active, log: s.log,
	})
}

func (s *Scheduler) newControlState() *controlState {
	return &controlState{
		control: s.options.Store, session: s.keeper.id, table: s.table, activation: s.activation,
		active: s.active, heartbeatNow: s.keeper.heartbeatNow, registry: s.registry,
		build: s.options.Build, log: s.log, intervals: s.intervals,
		polls: make(chan struct{}, 1), announced: s.wakes.announced, refused: map[string]int64{},
		cancelled: map[uuid.UUID]string{},
		watched: &watched{store: s.options.Store, active: s.active,
			written: map[jobs.Token]int64{}},
	}
}

func (s *Scheduler) newDispatcher() *dispatcher {
	return &dispatcher{
		table: s.table, controlState: s.controlState, clock: s.clock, clockLimit: s.clockLimit,
		keeper: s.keeper, intervals: s.intervals, pace: s.paces.dispatch, log: s.log,
		revised: s.activation.revised,
		ready:   s.ready, ranking: s.ranking, lookout: s.lookout,
		prefilter: prefilter{locker: s.options.Locker, ready: s.ready, lookout: s.lookout,
			log: s.log},
		workers: s.workers, active: s.active, executor: s.newExecutor(),
	}
}

func (s *Scheduler) newExecutor() *executor {
	o := s.options
	notes := &notes{replica: o.Replica, clock: s.clock,
		calls: newBatcher(bySession(o.Store.Note), s.paces.notes), events: s.events,
		overtime: s.overtime}
	handover := newHandover()
	s.heldLocks = newHeldLocks(o.Locker, handover, s.intervals, s.log)
	starts := newBatcher(bySession(o.Store.Start), s.paces.starts)
	locks := advisoryLocks{replica: o.Replica, locker: o.Locker, clockLimit: s.clockLimit,
		skipUnavailable: o.SkipWithoutLocks, databases: o.Databases, held: s.heldLocks,
		lookout: s.lookout}
	return &executor{
		clock: s.clock, table: s.table, tracing: o.Tracing, events: s.events, locks: locks,
		overlaps: newOverlaps(o.Store.Claims, s.paces.starts),
		starts: starter{calls: starts, ttl: o.SessionTTL,
			active: s.active, notes: notes, events: s.events, stale: s.activation.doubt,
			paused: s.controlState.requestPoll},
		notes: notes,
		waits: waiter{replica: o.Replica, clock: s.clock,
			controlState: s.controlState, intervals: s.intervals, notes: notes,
			handover: handover, held: s.heldLocks},
		attempts: performer{replica: o.Replica, table: s.table, clock: s.clock,
			registry: s.registry, store: o.RunStore, cluster: o.Store.ClusterID(),
			databases: o.Databases, locks: locks, active: s.active,
			finishes: finisher{
				calls: newFinishBatcher(o.Store.Finish, starts.usual.Idle, s.paces.finishes),
				clock: s.clock, handover: handover, ttl: o.SessionTTL},
			events: s.events, wakes: s.wakes, logOutput: o.LogOutput},
		wakes: s.wakes,
	}
}

func (s *Scheduler) newUpkeep() *upkeep {
	o := s.options
	misfires := &misfireChecker{store: o.Store, table: s.table, clock: s.clock, events: s.events,
		intervals: s.intervals, log: s.log, page: maxMisfirePage, held: map[string]bool{},
		controlState: s.controlState}
	turns := turns{s.ranking, s.clock}
	return &upkeep{
		keeper: s.keeper, turns: turns, intervals: s.intervals,
		wakes: s.wakes, heartbeat: o.Heartbeat,
		sweeper: &sweeper{store: o.Store, locker: o.Locker, tracing: o.Tracing, events: s.events,
			log: s.log},
		misfires: misfires,
		dependents: &dependents{store: o.Store, table: s.table, clock: s.clock,
			misfires: misfires, wakes: s.wakes, log: s.log},
		backfills: s.backfills,
		adopter: &adopter{store: o.Store, table: s.table, controlState: s.controlState,
			clock: s.clock, clockLimit: s.clockLimit, workers: s.workers, active: s.active,
			ready: s.ready, turns: turns, intervals: s.intervals, heartbeat: o.Heartbeat,
			log: s.log},
		sealer: s.sealer,
	}
}
