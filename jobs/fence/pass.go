package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// The parts of a name: its rows in the table tokens.
const (
	tokenPart  = 0 // the row that runs lock, with the largest token of an exclusive lock
	insertPart = 1 // the row that protects inserts of names beneath
)

const (
	readToken = "SELECT token FROM holdfast_fence.tokens " +
		"WHERE cluster = ? AND name = ? AND part = ?"
	readBeneath = "SELECT token FROM holdfast_fence.tokens%s " +
		"WHERE cluster = ? AND name >= ? AND name < ? AND part = 0 ORDER BY name"
	// If a name has no readers, MariaDB would lock the last reader of the name before it for
	// max(token).
	lastReader = "SELECT token FROM holdfast_fence.readers%s " +
		"WHERE cluster = ? AND name = ? ORDER BY token DESC LIMIT 1"
	lastReaderBeneath = "SELECT coalesce(max(token), 0) FROM holdfast_fence.readers%s " +
		"WHERE cluster = ? AND name >= ? AND name < ?"
	lastTokenBeneath = "SELECT coalesce(max(token), 0) FROM holdfast_fence.tokens%s " +
		"WHERE cluster = ? AND name >= ? AND name < ?"
	raiseToken = "UPDATE holdfast_fence.tokens SET token = ? " +
		"WHERE cluster = ? AND name = ? AND part = 0 AND token < ?"
	deleteReaders = "DELETE FROM holdfast_fence.readers " +
		"WHERE cluster = ? AND name = ? AND token <= ?"
	limitStatements = "SELECT set_config('statement_timeout', ?, true)"
	limitIdle       = "SELECT set_config('idle_in_transaction_session_timeout', ?, true)"
)

// IdleLimit is how long a fenced transaction may wait for its client before the server ends it. It
// applies in PostgreSQL, and to DoSQL in MariaDB and MySQL.
const IdleLimit = time.Minute

// Check makes the pass without a row in commits: the transaction is fenced, and a further attempt
// repeats its effects. It must be the first statement of the transaction. It returns
// storage.ErrSuperseded if a conflicting run with a larger token has committed a fenced
// transaction. After an error, roll back.
//
// In PostgreSQL, the deadline of ctx also limits the statements of the transaction.
func Check(ctx context.Context, run *jobs.Run, tx Tx) error {
	if err := check(ctx, run, tx); err != nil {
		return fmt.Errorf("fence check of token %d: %w", run.Token, err)
	}
	return nil
}

func check(ctx context.Context, run *jobs.Run, tx Tx) error {
	plan, err := newPlan(run)
	if err != nil {
		return err
	}
	if err := tx.prepare(ctx); err != nil {
		return err
	}
	p := pass{plan, tx}
	for _, r := range p.rows {
		if err := p.lock(ctx, r); err != nil {
			return err
		}
	}
	readers := map[name]bool{}
	for _, n := range p.names {
		if readers[n], err = p.compare(ctx, n); err != nil {
			return err
		}
	}
	for _, n := range p.names {
		if err := p.raise(ctx, n, readers[n]); err != nil {
			return err
		}
	}
	return nil
}

// pass is the pass of one run in one transaction.
type pass struct {
	*plan
	tx Tx
}

// errNewName says that a row is missing, and that another transaction must insert it.
var errNewName = errors.New("a name has no row yet")

// lock locks the row of a name, and inserts it first if it is missing.
func (p pass) lock(ctx context.Context, r row) error {
	found, err := p.lockOne(ctx, r.Resource, tokenPart, r.exclusive)
	if err == nil && !found {
		err = p.insert(ctx, r)
	}
	if err != nil || !r.beneath {
		return err
	}
	if err := p.ensure(ctx, r.Resource, insertPart, false); err != nil {
		return err
	}
	first, end := beneath(r.Resource)
	return p.tx.Query(ctx, func(scan func(...any) error) error {
		var token int64
		return scan(&token)
	}, p.tx.dialect.in(fmt.Sprintf(readBeneath, p.tx.dialect.index)+p.tx.dialect.forShare),
		p.cluster, first, end)
}

// insert inserts the missing row of a name and locks it. Readers of names above have locked the
// rows that they found, so insert waits for their ends.
func (p pass) insert(ctx context.Context, r row) error {
	if p.tx.knownOnly {
		return errNewName
	}
	for _, above := range r.Ancestors() {
		if err := p.ensure(ctx, above, insertPart, true); err != nil {
			return err
		}
	}
	return p.ensure(ctx, r.Resource, tokenPart, r.exclusive)
}

// ensure locks a row, which it inserts if it is missing.
func (p pass) ensure(ctx context.Context, r locking.Resource, part int16, exclusive bool) error {
	found, err := p.lockOne(ctx, r, part, exclusive)
	if err != nil || found {
		return err
	}
	if p.tx.knownOnly {
		return errNewName
	}
	if err := p.insertRow(ctx, r, part); err != nil {
		return err
	}
	found, err = p.lockOne(ctx, r, part, exclusive)
	if err == nil && !found {
		return fmt.Errorf("the row of %s in holdfast_fence.tokens is missing after its insert",
			r.Key())
	}
	return err
}

func (p pass) insertRow(ctx context.Context, r locking.Resource, part int16) error {
	_, err := p.tx.exec(ctx, p.tx.dialect.insertToken, p.cluster, r.Key(), part)
	return err
}

// lockOne locks one row, and reports whether it is there.
func (p pass) lockOne(ctx context.Context, r locking.Resource, part int16,
	exclusive bool) (bool, error) {
	mode := p.tx.dialect.forShare
	if exclusive {
		mode = p.tx.dialect.forUpdate
	}
	var token int64
	return p.tx.one(ctx, []any{&token}, readToken+mode, p.cluster, r.Key(), part)
}

// compare returns storage.ErrSuperseded if a token that conflicts with the lock on n is larger than
// the run's own. It reports whether n has readers.
func (p pass) compare(ctx context.Context, n name) (readers bool, err error) {
	for _, r := range append(n.Ancestors(), n.Resource) {
		if _, err := p.largest(ctx, r.Key(), readToken, r.Key(), int16(tokenPart)); err != nil {
			return false, err
		}
		if n.shared {
			continue
		}
		reader, err := p.largest(ctx, r.Key(), p.indexed(lastReader), r.Key())
		if err != nil {
			return false, err
		}
		readers = r == n.Resource && reader > 0
	}
	if n.leaf() {
		return readers, nil
	}
	// Without this row there are no names beneath. A range would make MariaDB wait for the row
	// after it, which belongs to another name.
	var none int64
	known, err := p.tx.one(ctx, []any{&none}, readToken+p.tx.dialect.current, p.cluster, n.Key(),
		int16(insertPart))
	if err != nil || !known {
		return readers, err
	}
	first, end := beneath(n.Resource)
	where := "a name beneath " + n.Key()
	_, err = p.largest(ctx, where, p.indexed(lastTokenBeneath), first, end)
	if err == nil && !n.shared {
		_, err = p.largest(ctx, where, p.indexed(lastReaderBeneath), first, end)
	}
	return readers, err
}

func (p pass) indexed(query string) string { return fmt.Sprintf(query, p.tx.dialect.index) }

// largest returns the token that a query reads. It returns storage.ErrSuperseded if the token is
// larger than the run's own.
func (p pass) largest(ctx context.Context, where, query string, args ...any) (int64, error) {
	var seen int64
	if _, err := p.tx.one(ctx, []any{&seen}, query+p.tx.dialect.current,
		append([]any{p.cluster}, args...)...); err != nil {
		return 0, err
	}
	if seen > int64(p.token) {
		return 0, fmt.Errorf("a run with token %d has locked %s since: %w", seen, where,
			storage.ErrSuperseded)
	}
	return seen, nil
}

// raise records the run's token.
func (p pass) raise(ctx context.Context, n name, readers bool) error {
	token := int64(p.token)
	if n.shared {
		_, err := p.tx.exec(ctx, p.tx.dialect.insertReader, p.cluster, n.Key(), token)
		return err
	}
	if _, err := p.tx.exec(ctx, raiseToken, token, p.cluster, n.Key(), token); err != nil {
		return err
	}
	if !readers {
		return nil
	}
	_, err := p.tx.exec(ctx, deleteReaders, p.cluster, n.Key(), token)
	return err
}

// beneath returns the range of keys of the names beneath r, without the end.
func beneath(r locking.Resource) (first, end string) { return r.Key() + "/", r.Key() + "0" }
