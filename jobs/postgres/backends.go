package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	backendID   = `SELECT pg_backend_pid()`
	lockClaim   = `SELECT FROM holdfast.claims WHERE token = $1 FOR UPDATE`
	lockExpired = `SELECT FROM holdfast.sessions WHERE id = $1 FOR UPDATE`

	// endLockers ends the backends that block $1 with transactions that are older than $2. The age
	// of another role's transaction is unknown: the termination fails, with an error. A backend
	// that waits in the statement of $1 is that of another replica, before $1 in the queue for the
	// row. If it has the row and its replica is frozen, it is ended.
	endLockers = `
SELECT e.pid FROM (
    SELECT b.pid, CASE WHEN coalesce(a.xact_start, '-infinity') <= clock_timestamp() - $2::interval
        THEN pg_terminate_backend(b.pid) END AS ended
    FROM unnest(pg_blocking_pids($1)) AS b (pid)
        JOIN pg_stat_activity a ON a.pid = b.pid JOIN pg_stat_activity w ON w.pid = $1
    WHERE (a.wait_event_type = 'Lock' AND a.query = w.query) IS NOT TRUE OFFSET 0) e
WHERE e.ended`
)

// heldRow is a row that a backend may hold in a transaction whose owner is dead.
type heldRow struct {
	lock string // the statement that waits for the row
	key  any
	open time.Duration // for how long a transaction must have been open to be ended
}

// heldClaim is the claim of a dead session or of an abandoned handler. Any transaction that holds
// it is the job's, whatever its age. Other replicas may wait for it too.
func heldClaim(token jobs.Token) heldRow { return heldRow{lock: lockClaim, key: token} }

// heldSession is an expired session. A start or a heartbeat of which PostgreSQL has received only a
// part holds it. No timeout of PostgreSQL ends a transaction that waits for the rest of a message.
// A sweep of another replica holds the session too, but only briefly.
func (s *Store) heldSession(session uuid.UUID) heldRow {
	return heldRow{lock: lockExpired, key: session, open: s.pinnedAfter}
}

// endHolders ends the backends that hold the row in an open transaction. PostgreSQL reports them
// exactly, once a backend waits for the row. An application name would be cut at 63 bytes and need
// not be unique. The waiter reports its backend and waits in one transaction, because a pooler may
// give each transaction another backend.
func (s *Store) endHolders(ctx context.Context, row heldRow) (int, error) {
	own, leave, err := s.besidePools(ctx)
	if err != nil {
		return 0, wrap("end row holder", err)
	}
	defer leave()
	waiter, release, err := s.pool.lease(ctx)
	if err != nil {
		return 0, wrap("end row holder", err)
	}
	defer release()
	begun, err := waiter.Begin(ctx)
	if err != nil {
		return 0, wrap("end row holder", err)
	}
	defer rollback(ctx, waiter, begun)
	tx := schemaTx{begun, s.schema}
	var pid int
	if err := tx.QueryRow(ctx, backendID).Scan(&pid); err != nil {
		return 0, wrap("end row holder", err)
	}
	waiting, giveUp := context.WithCancel(ctx)
	waited := make(chan error, 1)
	go func() {
		waited <- s.waitForRow(waiting, tx, row)
		close(waited)
	}()
	ended, err := endBlockers(ctx, own, pid, row.open, waited)
	giveUp()
	<-waited // the transaction is not used any more
	return ended, err
}

// besidePools returns a connection besides the pools, or one of the pages if the server has no
// place for another one. leave gives it back.
func (s *Store) besidePools(ctx context.Context) (own *pgx.Conn, leave func(), err error) {
	if own, err = s.connector.connect(ctx); err == nil {
		return own, func() { hangUp(own) }, nil
	}
	leased, release, leaseErr := s.views.lease(ctx)
	if leaseErr != nil {
		return nil, nil, errors.Join(err, leaseErr)
	}
	return leased.Conn(), release, nil
}

// endBlockers ends the backends that block the backend pid with transactions of at least the given
// age, until the waiter reports that it has waited, or until one cannot be ended. It returns how
// many it has ended. The connection must be the caller's own: the waiter waits for a second at
// most, and a pool may be busy for longer. The waiter closes the channel.
func endBlockers(ctx context.Context, own *pgx.Conn, pid int, open time.Duration,
	waited <-chan error) (int, error) {
	ended := map[int32]bool{}
	for {
		pids, err := terminate(ctx, own, pid, open)
		if err != nil {
			return len(ended), wrap("end row holder", err)
		}
		for _, pid := range pids {
			ended[pid] = true
		}
		select {
		case err := <-waited: // the waiter got the row, or its lock timeout has passed
			return len(ended), err
		case <-time.After(10 * time.Millisecond): // the waiter may not wait yet
		}
	}
}

func terminate(ctx context.Context, own *pgx.Conn, pid int, open time.Duration) ([]int32, error) {
	rows, err := own.Query(ctx, endLockers, pid, open)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int32])
}

// waitForRow waits for the row for at most one second, which is enough for PostgreSQL to report its
// blockers. The transaction ends in the same round trip.
func (s *Store) waitForRow(ctx context.Context, tx pgx.Tx, row heldRow) error {
	b := &pgx.Batch{}
	b.Queue("SELECT set_config('lock_timeout', $1, true)", s.lockTimeout)
	b.Queue(row.lock, row.key)
	b.Queue("ROLLBACK")
	err := wrap("wait for held row", tx.SendBatch(ctx, b).Close())
	if errors.Is(err, storage.ErrRowHeld) {
		return nil // still held: the next sweep tries again
	}
	return err
}
