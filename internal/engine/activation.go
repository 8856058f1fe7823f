package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// activation tracks which jobs this replica fires: those whose active definition it has. It belongs
// to the keeper's goroutine, except for its channels.
type activation struct {
	store definitionStore
	table *cronTable
	log   zerolog.Logger
	read  int64 // HeartbeatReply.Definitions when the versions were last read
	part  int   // the most definitions that the store can register in one call, as measured

	doubted atomic.Bool   // the store refused a start as stale
	added   atomic.Bool   // the table has unregistered jobs
	wake    chan struct{} // holds a value when one of them was set
	revised chan struct{} // holds a value when the dispatcher must update which jobs it fires
}

// unread is a value that HeartbeatReply.Definitions never has. After a refused start, versions are
// read again with the next heartbeat. Further refusals wait until then.
const unread = -1

func newActivation(store definitionStore, table *cronTable, log zerolog.Logger) *activation {
	return &activation{store: store, table: table, log: log, read: unread, part: maxEnrolled,
		wake: make(chan struct{}, 1), revised: make(chan struct{}, 1)}
}

// register registers this replica's definitions with the session. opened is the hash of the jobs
// with which the session was opened. If a reload has changed them since, the store is notified when
// the session is open.
func (f *activation) register(ctx context.Context, session uuid.UUID, opened string) error {
	withdrawn := f.table.unsettled() // the session never had them
	entries := f.table.all()
	definitions, err := definitionsOf(entries)
	if err != nil {
		return err
	}
	versions, err := f.store.Register(ctx, session, definitions)
	if err != nil {
		return err
	}
	f.table.settle(withdrawn)
	for _, e := range entries {
		e.activeVersion.register(versions[e.Name])
	}
	if f.table.hash() != opened {
		f.table.reviseAgain()
		f.enrollLater()
	}
	return nil
}

func definitionsOf(entries []*entry) ([]storage.Definition, error) {
	definitions := make([]storage.Definition, len(entries))
	for i, e := range entries {
		var err error
		if definitions[i], err = e.definition(); err != nil {
			return nil, err
		}
	}
	return definitions, nil
}

// maxEnrolled limits the definitions of one registration, so that heartbeats are sent in between.
const maxEnrolled = 5 * storage.MaxBatch

// enroll registers definitions that were added to the table, and withdraws removed ones. It
// withdraws first: a restored definition has a lower version than the one that it replaces. If
// there are more definitions than part, it requests another call for the rest.
func (f *activation) enroll(ctx context.Context, session uuid.UUID) error {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	if f.table.isUnsettled() {
		withdrawn := f.table.unsettled()
		if err := f.store.Withdraw(bounded, session, f.table.hash(),
			namesOf(withdrawn)); err != nil {
			f.table.reviseAgain()
			return err
		}
		f.table.settle(withdrawn)
	}
	fresh := f.table.unregistered()
	if len(fresh) == 0 {
		return nil
	}
	part := fresh[:min(len(fresh), f.part)]
	own, versions, err := f.registerPart(bounded, session, part)
	if err != nil {
		return err
	}
	for _, e := range part {
		e.activeVersion.register(own[e.Name])
		e.activeVersion.update(versions[e.Name])
		f.log.Info().Str("job", e.Name).Int64("version", own[e.Name]).Msg("job registered")
	}
	if len(part) < len(fresh) {
		f.enrollLater()
	}
	signal(f.revised)
	return nil
}

// registerPart registers definitions in one call. After a failure the next part is smaller, so that
// even a slow store makes progress.
func (f *activation) registerPart(ctx context.Context, session uuid.UUID,
	part []*entry) (own map[string]int64, versions map[string]storage.ActiveDefinition, err error) {
	definitions, err := definitionsOf(part)
	if err != nil {
		return nil, nil, err
	}
	start := time.Now()
	if own, err = f.store.Register(ctx, session, definitions); err != nil {
		f.part = max(1, len(part)/2)
		return nil, nil, err
	}
	if time.Since(start) < batchTimeout/4 {
		f.part = min(2*f.part, maxEnrolled)
	}
	versions, err = f.store.Versions(ctx)
	return own, versions, err
}

// tryEnroll calls enroll and logs its error. While something is unregistered, the control state
// calls it again.
func (f *activation) tryEnroll(ctx context.Context, session uuid.UUID) {
	if err := f.enroll(ctx, session); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		f.log.Warn().Err(err).Msg("register changed jobs failed, retrying")
	}
}

// refresh reads which definitions are active, unless they have not changed since the last read.
func (f *activation) refresh(ctx context.Context, definitions int64) error {
	if f.read == definitions || f.table.len() == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	versions, err := f.store.Versions(bounded)
	if err != nil {
		f.read = unread
		return fmt.Errorf("read active definitions: %w", err)
	}
	f.read = definitions
	var changed []*entry
	revised := false
	for _, e := range f.table.all() {
		again := e.activeVersion.known()
		if now, known := versions[e.Name]; known && e.activeVersion.update(now) {
			revised = true
			if again {
				changed = append(changed, e)
			}
		}
	}
	f.logChanges(changed)
	if revised {
		signal(f.revised)
	}
	return nil
}

// maxLogged is the most jobs that the log names when a deploy changes many.
const maxLogged = 20

// logChanges logs which jobs this replica fires again, and which it leaves to others.
func (f *activation) logChanges(changed []*entry) {
	for _, e := range changed[:min(len(changed), maxLogged)] {
		event, message := f.log.Info(), "job definition is active again"
		if e.activeVersion.stale() {
			event, message = f.log.Warn(), "job has a newer definition on other replicas"
		}
		event.Str("job", e.Name).Int64("version", e.activeVersion.own()).
			Int64("active_version", e.activeVersion.current()).Msg(message)
	}
	if more := len(changed) - maxLogged; more > 0 {
		f.log.Warn().Int("jobs", more).Msg("active definitions of more jobs changed")
	}
}

// tryRefresh calls refresh and logs its error. Until it succeeds, the store refuses starts of jobs
// that this replica must not fire.
func (f *activation) tryRefresh(ctx context.Context, definitions int64) {
	if err := f.refresh(ctx, definitions); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		f.log.Warn().Err(err).
			Msg("read active definitions failed, retrying with the next heartbeat")
	}
}

// doubt requests a refresh: the store has another active definition than this replica. It may be
// called concurrently.
func (f *activation) doubt() {
	f.doubted.Store(true)
	signal(f.wake)
}

// enrollLater requests the registration of added definitions. It may be called concurrently.
func (f *activation) enrollLater() {
	f.added.Store(true)
	signal(f.wake)
}

// catchUp executes the requests of doubt and enrollLater.
func (f *activation) catchUp(ctx context.Context, s *liveSession) {
	if f.doubted.Swap(false) {
		f.tryRefresh(ctx, unread)
	}
	if f.added.Swap(false) {
		f.tryEnroll(ctx, s.ID)
	}
}

// signal sends a value on a channel with a buffer of one, unless the buffer is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
