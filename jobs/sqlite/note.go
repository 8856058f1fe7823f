package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// noter decides on a batch of notes and collects the rows to write.
type noter struct {
	session liveSession
	now     time.Time
	ledger  *ledger
	runs    []runRow
	wants   []wantRow
	noted   []uuid.UUID // that may have waited for something else
}

// Note implements storage.Firings.
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
			stands[i] = n.apply(note)
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
	return &noter{session: session, now: rules.Whole(time.Now()), ledger: l}, err
}

// apply reports whether the note takes effect.
func (n *noter) apply(note storage.Note) bool {
	known, unique := n.ledger.known[note.Run], firingOf(note.Firing)
	facts := rules.Start{Session: n.session.ID, Replica: n.session.Replica,
		Stale: n.ledger.stale(note.Firing.Job, note.Version), Taken: n.ledger.taken[unique]}
	if known != nil {
		facts.Known = &known.Run
	}
	stands, apply := facts.Noted(note)
	switch {
	case apply && known != nil:
		run := known.Run
		run.Session = n.session.ID // a run that was held back has none
		n.write(run, note)
	case apply:
		n.ledger.taken[unique] = true
		run := rules.NewRun(note.Run, note.Firing, n.now)
		run.Session, run.Replica = n.session.ID, n.session.Replica
		n.write(run, note)
	}
	return stands
}

func (n *noter) write(run rules.Run, note storage.Note) {
	run.Note(note, n.now)
	n.noted = append(n.noted, run.ID)
	if note.State == jobs.Waiting {
		n.wants = append(n.wants, wantRows(run.ID, note.Requests)...)
	}
	n.runs = append(n.runs, runRow{Run: run})
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
