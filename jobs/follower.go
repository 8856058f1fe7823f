package jobs

import (
	"context"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// follower keeps in step which jobs are this replica's to fire: those of which
// its own definition is in force. It belongs to the keeper's goroutine, but for
// its channels.
type follower struct {
	store Sessions
	table cronTable
	log   zerolog.Logger
	read  int64 // Beat.Definitions as it was when versions were last read

	doubts  chan struct{} // holds a value when a start was refused as stale
	revised chan struct{} // holds a value when the dispatcher is to look again who fires what
}

// unread is no beat's Definitions. Read after a doubt, versions are read again
// after the next beat, and further doubts wait until then.
const unread = -1

func newFollower(store Sessions, table cronTable, log zerolog.Logger) *follower {
	return &follower{store: store, table: table, log: log, read: unread, doubts: make(chan struct{}, 1), revised: make(chan struct{}, 1)}
}

// register has the session carry this replica's definitions.
func (f *follower) register(ctx context.Context, session uuid.UUID) error {
	versions, err := f.store.Register(ctx, session, f.table.definitions())
	if err != nil {
		return err
	}
	for name, version := range versions {
		f.table[name].standing.register(version)
	}
	return nil
}

// follow reads which definitions are in force, where that may have changed
// since it was last read.
func (f *follower) follow(ctx context.Context, definitions int64) error {
	if f.read == definitions || len(f.table) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	versions, err := f.store.Versions(bounded)
	if err != nil {
		return err
	}
	f.read = definitions
	var changed []*entry
	for _, name := range f.table.names() {
		if now, known := versions[name]; known && f.table[name].standing.hear(now) {
			changed = append(changed, f.table[name])
		}
	}
	if len(changed) > 0 {
		f.tell(changed)
		signal(f.revised)
	}
	return nil
}

// maxTold is how many jobs are named when a deploy changes many.
const maxTold = 20

// tell logs that jobs are others' to fire now, or this replica's again.
func (f *follower) tell(changed []*entry) {
	for _, e := range changed[:min(len(changed), maxTold)] {
		event, message := f.log.Info(), "job's definition here is in force again, this replica fires it"
		if e.standing.stale() {
			event, message = f.log.Warn(), "job has a newer definition, this replica leaves it to others"
		}
		event.Str("job", e.Name).Int64("version", e.standing.version.Load()).Int64("in_force", e.standing.inForce.Load()).Msg(message)
	}
	if more := len(changed) - maxTold; more > 0 {
		f.log.Warn().Int("jobs", more).Msg("and definitions of more jobs came into force, or went")
	}
}

// tryFollow is follow for when it may wait: until then the store refuses what
// is not this replica's to start.
func (f *follower) tryFollow(ctx context.Context, definitions int64) {
	if err := f.follow(ctx, definitions); err != nil {
		f.read = unread
		if ctx.Err() == nil {
			f.log.Warn().Err(err).Msg("definitions in force not read, the next heartbeat tries again")
		}
	}
}

// doubt says that the store knows of another definition than this replica. It
// may be called concurrently.
func (f *follower) doubt() { signal(f.doubts) }

// signal leaves a value in a channel that holds one, unless there is one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
