package engine

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	lookoutBatch = 256 // firings checked in one request at most
	lookoutLeast = 32  // firings checked in the first request of a look
	// lookoutFew is the least limit of the open firings that a look queues, however many replicas
	// there are.
	lookoutFew = 3
	// lookoutQueueTimeout is how long a look waits for the firings in the queue to get their
	// workers.
	lookoutQueueTimeout = 200 * time.Millisecond
	lookoutAgain        = 100 * time.Millisecond // between looks at the same few firings
	// lookoutTimeout is longer than the timeout of a request to memcached. So a look fails if the
	// server does not reply, but not if this replica only had no processor for a while.
	lookoutTimeout = 5 * time.Second
)

// lookout handles firings that this replica left to others, when its turn has come. It looks at
// many gates with one request and drops the firings that other replicas have begun. It queues as
// many of the others as there are free workers. So when all replicas are busy, a firing is in the
// queue of few of them. A look only reads: a queued firing still has to pass its gate.
//
// The second and the third replica of a firing look at its gate, one after the other. All others
// share one look at the firings of a burst.
//
// If memcached does not answer, a look asks the store which firings have a run. If the store does
// not answer either, the replica looks again. It queues no firing without an answer: each replica
// would try the firings of all others, and this load would make the next looks fail too.
//
// A firing that no replica is known to have begun is open. If the replicas are overloaded, all of
// them find many firings that are open for a long time. If each replica tried them all, the tries
// would cost more than the runs. So all replicas together queue only as many open firings as
// sharedRank of them have free workers, apart from those for which they are the second or the third
// replica. Without memcached there is no gate, so that each try costs a start in the store. Then
// the limit is for all firings.
type lookout struct {
	locker  *locking.Locker // nil without memcached
	store   begunReader
	ranking *ranking
	ready   *ready
	workers *workers
	clock   *clusterClock
	log     zerolog.Logger

	mu        sync.Mutex
	due       []turn              // a heap
	gathering map[burstKey]*burst // to which firings are still added
	open      []*burst            // to be looked at again
	tried     []*burst            // with firings that this replica tries
	wake      chan struct{}       // holds a value when a firing or a burst was added
}

// begunReader reads which scheduled firings have a run.
type begunReader interface {
	Begun(ctx context.Context, firings []storage.Firing) ([]bool, error)
}

func newLookout(locker *locking.Locker, store begunReader, ranking *ranking, ready *ready,
	workers *workers, clock *clusterClock, log zerolog.Logger) *lookout {
	return &lookout{locker: locker, store: store, ranking: ranking, ready: ready, workers: workers,
		clock: clock, log: log, gathering: map[burstKey]*burst{}, wake: make(chan struct{}, 1)}
}

// turn is a firing whose turn on this replica has come.
type turn struct {
	planned
	queuePosition time.Time // see QueuePosition
	mixed         uint64    // random, so that replicas do not all queue the same firings
}

func (t turn) before(other turn) bool {
	return cmp.Or(t.queuePosition.Compare(other.queuePosition), cmp.Compare(t.rank, other.rank),
		cmp.Compare(t.mixed, other.mixed)) < 0
}

// add adds a firing whose turn on this replica has come.
func (l *lookout) add(p planned) {
	l.put(p.turn())
	signal(l.wake)
}

// turn returns the firing as one whose turn has come.
func (p planned) turn() turn {
	return turn{p, storage.QueuePosition(p.scheduledAt, p.entry.EffectivePriority()), rand.Uint64()}
}

func (l *lookout) put(turns ...turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range turns {
		pushHeap(&l.due, t)
	}
}

// take removes and returns the first firings, at most n, and reports whether there are more.
func (l *lookout) take(n int) (batch []turn, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.due) > 0 && len(batch) < n {
		batch = append(batch, popHeap(&l.due))
	}
	return batch, len(l.due) > 0
}

func (l *lookout) isDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.due) > 0
}

// run looks until ctx ends. It forgets the remaining firings then.
func (l *lookout) run(ctx context.Context) {
	for l.await(ctx) {
		due := l.showProgress(ctx, l.dueBursts(l.clock.now()))
		l.awaitIdle(ctx)
		for _, m := range due {
			l.lookAtBurst(ctx, m)
		}
		if l.look(ctx) {
			sleep.For(ctx, lookoutAgain)
		}
	}
}

// await waits until there is something to look at. It returns false when ctx has ended.
func (l *lookout) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		wait := l.untilDue(l.clock.now())
		if wait <= 0 {
			return true
		}
		timer := sleep.Timer(wait)
		select {
		case <-timer.C:
		case <-l.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// untilDue returns the time until there is something to look at, at most an hour.
func (l *lookout) untilDue(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) > 0 {
		return 0
	}
	wait := time.Hour
	for _, m := range l.gathering {
		wait = min(wait, m.due.Sub(now))
	}
	for _, m := range l.open {
		wait = min(wait, m.due.Sub(now))
	}
	return wait
}

// awaitIdle waits until the queue is empty, but not for long. A busy replica starts its own firings
// first, and meanwhile other replicas start theirs.
func (l *lookout) awaitIdle(ctx context.Context) {
	timer := sleep.Timer(lookoutQueueTimeout)
	defer timer.Stop()
	for l.ready.len() > 0 {
		select {
		case <-l.ready.idle:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// look queues firings that no replica has begun, as long as workers are free. It reports whether
// it must look again.
func (l *lookout) look(ctx context.Context) (again bool) {
	free := l.workers.free() - l.ready.len()
	few := l.fewOf(free)
	for n, more := lookoutLeast, l.isDue(); more; n = min(2*n, lookoutBatch) {
		if free <= 0 {
			return true
		}
		var batch, left []turn
		batch, more = l.take(n)
		begun, gates, err := l.begun(ctx, firingsOf(batch))
		now := l.clock.now()
		for i, t := range batch {
			limited := t.rank == sharedRank || !gates
			switch {
			case begun[i]:
				l.noteBegun(t.burst, t.scheduledAt, t.entry)
				continue
			case t.entry.gone.Load(), t.entry.overdue(t.scheduledAt, now):
				continue
			case err != nil, free <= 0, limited && few <= 0:
				left = append(left, t)
				continue
			case limited:
				few--
			}
			free--
			l.ready.add(t.planned, now)
		}
		l.put(left...)
		if len(left) > 0 {
			return true
		}
	}
	return false
}

// fewOf returns how many open firings a replica with n free workers may queue: its share of what
// sharedRank such replicas could start, but at least lookoutFew if n is not less.
func (l *lookout) fewOf(n int) int {
	replicas := l.ranking.at(time.Now()).len()
	if replicas <= sharedRank {
		return n
	}
	return max(min(n, lookoutFew), n*sharedRank/replicas)
}

func firingsOf(turns []turn) []planned {
	firings := make([]planned, len(turns))
	for i, t := range turns {
		firings[i] = t.planned
	}
	return firings
}

// begun reports for each firing whether another replica is known to have begun it, and whether
// memcached has answered for all of them. An error says that this is unknown for the firings that
// are not reported.
func (l *lookout) begun(ctx context.Context, batch []planned) (begun []bool, gates bool,
	err error) {
	if begun, gates = l.passed(ctx, batch); gates {
		return begun, true, nil
	}
	var open []int // of the firings that are not known to have begun
	var firings []storage.Firing
	for i, p := range batch {
		if !begun[i] {
			open, firings = append(open, i), append(firings, p.firing())
		}
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	stored, err := l.store.Begun(bounded, firings)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Debug().Err(err).Int("firings", len(firings)).Msg("look for begun firings failed")
		}
		return begun, false, err
	}
	for n, i := range open {
		begun[i] = stored[n]
	}
	return begun, false, nil
}

// passed reports for each firing whether its gate is known to be passed, and whether memcached has
// answered for all of them.
func (l *lookout) passed(ctx context.Context, batch []planned) (begun []bool, answered bool) {
	begun = make([]bool, len(batch))
	if l.locker == nil {
		return begun, false
	}
	gates := make([]string, len(batch))
	for i, p := range batch {
		gates[i] = gateName(p.firing(), p.entry.activeVersion.own())
	}
	bounded, cancel := context.WithTimeout(ctx, lookoutTimeout)
	defer cancel()
	passed, err := l.locker.Passed(bounded, gates)
	if err != nil && ctx.Err() == nil {
		l.log.Debug().Err(err).Int("firings", len(gates)).Msg("check gates failed")
	}
	for i, gate := range gates {
		begun[i] = passed[gate]
	}
	return begun, err == nil
}

// firing returns the firing of a scheduled time.
func (p planned) firing() storage.Firing {
	return storage.Firing{Job: p.entry.Name, ScheduledAt: p.scheduledAt}
}

// pending returns the firing as one that has left the queue.
func (p planned) pending(now time.Time) pending {
	return pending{Firing: p.firing(), entry: p.entry, attempt: 1, since: now, rank: int(p.rank),
		burst: p.burst}
}
