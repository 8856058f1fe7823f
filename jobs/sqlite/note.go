package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// noter decides on a batch of notes and collects the rows to write.
type noter struct {
	session liveSession
	now     int64
	ledger  *ledger
	runs    []runRow
	wants   []wantRow
	noted   []uuid.UUID // that may have waited for something else
}

// Note records firings that have not started.
func (s *Store) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) ([]bool, error) {
	if err := s.exclusively("note"); err != nil {
		return nil, err
	}
	stands := make([]bool, len(notes))
	if len(notes) == 0 {
		return stands, nil
	}
	err := s.write(ctx, "note", func(tx *sql.Tx) error {
		mine, live := s.sessions.get(session)
		if !live {
			return storage.ErrSessionLost
		}
		n, err := newNoter(ctx, tx, mine, notes)
		if err != nil {
			return err
		}
		for i, note := range notes {
			if stands[i], err = n.apply(note); err != nil {
				return err
			}
		}
		return n.save(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return stands, nil
}

func newNoter(ctx context.Context, tx *sql.Tx, session liveSession,
	notes []storage.Note) (*noter, error) {
	ids, firings := make([]uuid.UUID, len(notes)), make([]firing, len(notes))
	for i, n := range notes {
		ids[i], firings[i] = n.Run, firingOf(n.Firing)
	}
	l, err := loadLedger(ctx, tx, ids, firings)
	return &noter{session: session, now: micros(time.Now()), ledger: l}, err
}

// apply reports whether the note takes effect.
func (n *noter) apply(note storage.Note) (bool, error) {
	if known := n.ledger.known[note.Run]; known != nil {
		mine := known.Session != nil && *known.Session == n.session.ID
		if mine && known.State == jobs.Waiting {
			return true, n.write(*known, note)
		}
		return mine && known.State == note.State, nil // a resent note, or another's run
	}
	unique := firingOf(note.Firing)
	if n.ledger.taken[unique] || n.ledger.stale(note.Firing.Job, note.Version) {
		return false, nil
	}
	n.ledger.taken[unique] = true
	run := newRun(note.Run, note.Firing, n.now)
	run.Session, run.Replica = &n.session.ID, n.session.Replica
	return true, n.write(run, note)
}

func (n *noter) write(run runRow, note storage.Note) error {
	err := run.setBlocker(note.Blocker, micros(note.WaitSince), n.now)
	run.State, run.Reason = note.State, note.Reason
	run.Detail, run.Error = output.PlainText(note.Detail),
		cmp.Or(output.PlainText(note.Error), run.Error)
	n.noted = append(n.noted, run.ID)
	if note.State == jobs.Waiting {
		if run.Since == nil {
			since := micros(note.WaitSince)
			run.Since = &since
			if len(note.Requests) > 0 {
				run.reserve(note.Reserve, n.now)
			}
		}
		n.wants = append(n.wants, wantRows(run.ID, note.Requests)...)
	} else {
		run.Finished, run.Since = &n.now, nil
	}
	n.runs = append(n.runs, run)
	return err
}

func (n *noter) save(ctx context.Context, tx *sql.Tx) error {
	if err := execRows(ctx, tx, saveRun, n.runs); err != nil {
		return err
	}
	if err := execBatch(ctx, tx, withdrawWants, n.noted); err != nil {
		return err
	}
	return execRows(ctx, tx, addWant, n.wants)
}
