package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/internal/test/simulation"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// simulatedLocks are the advisory locks of a simulated cluster.
type simulatedLocks struct {
	items atomic.Pointer[memory.Backend]
	down  atomic.Bool
}

func (l *simulatedLocks) flush() { l.items.Store(memory.New()) }

// lockWay is the connection of one process to the advisory locks.
type lockWay struct {
	locks *simulatedLocks
	plant func(key string) bool // simulated.plantAdd, or nil
	blind atomic.Bool
}

func (w *lockWay) reach() (*memory.Backend, error) {
	if w.blind.Load() || w.locks.down.Load() {
		return nil, fmt.Errorf("%w: it is down", locking.ErrUnavailable)
	}
	return w.locks.items.Load(), nil
}

func (w *lockWay) Server(string) string { return "memory" }

func (w *lockWay) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	b, err := w.reach()
	if err != nil {
		return err
	}
	if w.plant != nil && w.plant(key) {
		return fmt.Errorf("add: %w", locking.ErrNotStored)
	}
	return b.Add(ctx, key, value, ttl)
}

func (w *lockWay) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	b, err := w.reach()
	if err != nil {
		return nil, err
	}
	return b.Get(ctx, keys...)
}

func (w *lockWay) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	b, err := w.reach()
	if err != nil {
		return err
	}
	return b.Renew(ctx, key, value, ttl)
}

func (w *lockWay) Delete(ctx context.Context, key string, value []byte) error {
	b, err := w.reach()
	if err != nil {
		return err
	}
	return b.Delete(ctx, key, value)
}

func (w *lockWay) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	return lockingtest.AddEach(ctx, w, items, ttl)
}

func (w *lockWay) DeleteAll(ctx context.Context, items []locking.Item) []error {
	errs := make([]error, 0, len(items))
	for _, it := range items {
		errs = append(errs, w.Delete(ctx, it.Key, it.Value))
	}
	return errs
}

// simulatedHost is a host that runs one process of a replica after the other.
type simulatedHost struct {
	c            *simulatedCluster
	name         string
	random       *rand.Rand
	processes    uint64
	deploy       atomic.Int64 // index of the table for the next process
	controlState chan func()  // tasks, run one after the other
	closed       chan struct{}
	liveSession  *simulatedLife                // nil while there is none
	shown        atomic.Pointer[simulatedLife] // the same, for operators
}

// simulatedLife is one process of a replica.
type simulatedLife struct {
	number uint64 // counts the processes of all hosts
	link   *simstore.Link
	locks  *lockWay
	is     *engine.Scheduler
	rough  simstore.Faults // the faults of its connection while no fault is planned
	deploy int64
	dead   atomic.Bool // its requests no longer reach anything
	cancel context.CancelFunc
	ended  chan struct{}
}

func newSimulatedHost(c *simulatedCluster, i int) *simulatedHost {
	h := &simulatedHost{c: c, name: fmt.Sprint("replica-", i),
		random:       rand.New(rand.NewPCG(c.how.seed, 100+uint64(i))),
		controlState: make(chan func(), 10_000), closed: make(chan struct{})}
	go func() {
		defer close(h.closed)
		for do := range h.controlState {
			do()
		}
	}()
	return h
}

// enqueue queues a task.
func (h *simulatedHost) enqueue(do func()) { h.controlState <- do }

// wait waits until all queued tasks have run.
func (h *simulatedHost) wait() {
	done := make(chan struct{})
	h.enqueue(func() { close(done) })
	<-done
}

// begin starts a process with the newest table.
func (h *simulatedHost) begin() {
	h.processes++
	l := &simulatedLife{
		number: h.c.processes.Add(1), link: h.c.store.NewLink(h.random.Uint64()),
		locks: &lockWay{locks: &h.c.locks, plant: h.c.how.plantAdd}, deploy: h.deploy.Load(),
		ended: make(chan struct{}),
	}
	l.rough = simstore.Faults{
		Slow:    time.Duration(h.random.IntN(20)) * time.Millisecond,
		Misread: time.Duration(h.random.IntN(1000)-500) * time.Millisecond,
		Deaf:    h.c.how.dense && h.random.IntN(3) == 0,
	}
	l.link.SetFaults(l.rough)
	l.is = h.scheduler(l)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.ended)
		if err := l.is.Run(ctx); err != nil {
			h.c.t.Errorf("%s ended: %v", h.name, err)
		}
	}()
	h.live(l)
}

func (h *simulatedHost) live(l *simulatedLife) {
	h.liveSession = l
	h.shown.Store(l)
}

// definitions returns the jobs of a process and the work of their handlers, by name.
func (h *simulatedHost) definitions(table []jobs.Job) func(w simulation.Work,
	name string) *jobs.Job {
	byName := make(map[string]*jobs.Job, len(table))
	for i, job := range table {
		byName[job.Name] = &table[i]
	}
	return func(w simulation.Work, name string) *jobs.Job {
		if added := h.c.added.Job(w.Added); added != nil {
			return added
		}
		return byName[name]
	}
}

func (h *simulatedHost) scheduler(l *simulatedLife) *engine.Scheduler {
	how, table := h.c.how, h.c.tables[l.deploy]
	exists := func(_ context.Context, token jobs.Token) bool { return l.link.Stands(token) }
	registry, err := jobs.NewRegistry(h.c.ledger.Handler(l.number, h.definitions(table), exists))
	if err != nil {
		h.c.t.Fatal(err)
	}
	log := h.c.log()
	locker, err := locking.New(l.locks,
		locking.Options{Namespace: h.c.store.ClusterID().String(), Lease: time.Hour, Restore: true,
			Log: log})
	if err != nil {
		h.c.t.Fatal(err)
	}
	var store storage.Store = l.link
	if how.plant != nil {
		store = how.plant(store)
	}
	if how.plantJob != nil {
		table = slices.Clone(table)
		for i := range table {
			how.plantJob(&table[i])
		}
	}
	s, err := engine.New(engine.Options{
		Store: store, RunStore: simstore.WithoutSQL(store), Locker: locker, Registry: registry,
		Jobs: table, Build: h.c.added.Build,
		Replica: h.name, ReplaceEarlier: h.processes%2 == 0, Version: fmt.Sprint(l.deploy),
		Workers: how.workers, Heartbeat: how.heartbeat, SessionTTL: 3 * how.heartbeat,
		ShutdownGrace: how.heartbeat / 2, Log: log,
	})
	if err != nil {
		h.c.t.Fatal(err)
	}
	if how.adopt > 0 {
		s.SlowDown(how.adopt, how.misfires)
	}
	return s
}

// stop shuts the process down.
func (h *simulatedHost) stop() {
	if h.liveSession == nil {
		return
	}
	h.liveSession.cancel()
	<-h.liveSession.ended
	h.live(nil)
}

// die kills the process: its requests no longer reach anything. Another process starts after a
// time.
func (h *simulatedHost) die(after time.Duration) {
	defer h.c.wrong()()
	if h.liveSession != nil {
		h.liveSession.dead.Store(true)
		h.liveSession.link.SetCut(true)
		h.liveSession.locks.blind.Store(true)
		h.liveSession.cancel()
		h.live(nil)
	}
	time.Sleep(after)
	h.begin()
}

func (h *simulatedHost) restart(after time.Duration) {
	defer h.c.wrong()()
	h.stop()
	time.Sleep(after)
	h.begin()
}

// renew starts a process with the newest table, unless the current process has that table.
func (h *simulatedHost) renew() {
	if h.liveSession != nil && h.liveSession.deploy == h.deploy.Load() {
		return
	}
	h.stop()
	h.begin()
}

// suffer disturbs the process for a time.
func (h *simulatedHost) suffer(e simulation.Event) {
	l := h.liveSession
	if l == nil {
		return
	}
	over := h.c.wrong
	if e.Action == simulation.Blind {
		over = h.c.wrongWithLocks
	}
	h.c.during(e.For, over(), func(on bool) {
		if l.dead.Load() {
			return
		}
		switch e.Action {
		case simulation.Partition:
			l.link.SetCut(on)
			l.locks.blind.Store(on)
		case simulation.Cut:
			l.link.SetCut(on)
		case simulation.Blind:
			l.locks.blind.Store(on)
		case simulation.Rough:
			faults := l.rough
			if on {
				faults.Slow, faults.Lost = 2*time.Second, 0.1
			}
			l.link.SetFaults(faults)
		}
	})
}

// heal ends all faults of the process.
func (h *simulatedHost) heal() {
	h.liveSession.link.SetCut(false)
	h.liveSession.locks.blind.Store(false)
	h.liveSession.link.SetFaults(h.liveSession.rough)
}
