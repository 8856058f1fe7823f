package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// tokenStep is how far a restore raises the tokens. It is more than a cluster draws in three years
// at 1,000 starts a second, so no dump is that old. A token is exact in JSON up to 9·10¹⁵, which
// allows 90,000 restores.
const tokenStep = "100000000000"

const (
	// identity of the database. A restore of a dump creates the table meta again, with another id.
	// A recovery to a point in time, and the promotion of a standby, begin another timeline.
	identity = `'holdfast.meta'::regclass::oid || '/' ||
    left(pg_walfile_name(pg_current_wal_lsn()), 8)`

	// readHome returns the identity that the database had when its tokens were last raised, and the
	// one that it has. On a standby it returns no row.
	readHome = `SELECT home, ` + identity + ` FROM holdfast.meta WHERE NOT pg_is_in_recovery()`

	// moveHome waits for another session that raises the tokens, and then changes nothing.
	moveHome = `UPDATE holdfast.meta SET home = $2 WHERE home = $1`

	setHome = `UPDATE holdfast.meta SET home = ` + identity + ` WHERE home <> ` + identity + `
    AND home <> ''`

	// raiseTokens also looks at rows, because logical replication copies rows and no sequences. In
	// the history, the newest runs suffice: no other token is larger than theirs by tokenStep. To
	// read the whole history would take longer than a session may take to open.
	raiseTokens = `
WITH drawn AS (
    SELECT greatest(pg_sequence_last_value('holdfast.tokens'),
        (SELECT max(token) FROM (SELECT token FROM holdfast.runs
            WHERE ` + byCreation + ` AND token IS NOT NULL
            ORDER BY created_at DESC, id DESC LIMIT 1000) newest),
        (SELECT max(token) FROM holdfast.claims),
        (SELECT max(floor) FROM holdfast.fences), 0) AS token
)
SELECT token, setval('holdfast.tokens', token + ` + tokenStep + `) FROM drawn`
)

// raiseAfterRestore raises the tokens if the database was restored or promoted since the last
// session was opened. It may have lost the latest tokens, which systems outside of it have seen.
// Such a system refuses smaller tokens, and could not tell two runs of one token apart.
func (s *Store) raiseAfterRestore(ctx context.Context, replica string) error {
	var before, now string
	switch err := s.pool.QueryRow(ctx, readHome).Scan(&before, &now); {
	case err == pgx.ErrNoRows:
		return nil // on a standby no session can be opened
	case err != nil:
		return fmt.Errorf("find out whether the database was restored: %w", err)
	case before == now:
		return nil
	}
	var from, to jobs.Token
	if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		moved, err := tx.Exec(ctx, moveHome, before, now)
		if err != nil {
			return fmt.Errorf("record that the database was restored: %w", err)
		}
		if moved.RowsAffected() == 0 || before == "" { // "": a new database
			return nil
		}
		from, to, err = raise(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	if to == 0 {
		return nil
	}
	s.log.Warn().Int64("from", int64(from)).Int64("to", int64(to)).
		Msg("database was restored or promoted: fencing tokens raised")
	by := storage.Action{Actor: "replica " + replica, Via: "go", Replica: replica}
	if err := s.WriteAudit(ctx, by, storage.AuditRaiseTokens, "database",
		storage.RaisedTokens{From: from, To: to}); err != nil {
		s.log.Warn().Err(err).Msg("raised fencing tokens can't be written to the audit log")
	}
	return nil
}

// RaiseTokens implements storage.Tokens. The role needs UPDATE on the sequence tokens and on
// meta.home. The next session does not raise the tokens again.
func (s *Store) RaiseTokens(ctx context.Context) (storage.RaisedTokens, error) {
	var raised storage.RaisedTokens
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, setHome); err == nil {
			raised.From, raised.To, err = raise(ctx, tx)
		}
		return err
	})
	return raised, wrap("raise fencing tokens", err)
}

func raise(ctx context.Context, tx pgx.Tx) (from, to jobs.Token, err error) {
	err = tx.QueryRow(ctx, raiseTokens).Scan(&from, &to)
	return from, to, err
}
