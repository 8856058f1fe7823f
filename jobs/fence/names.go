package fence

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// addNames inserts the missing rows of the names that the run locks, in a short transaction of its
// own. In the transaction of the job, other new names beneath the same schema would wait for the
// end of the job.
func addNames(ctx context.Context, run *jobs.Run,
	begin func(context.Context) (*opened, error)) error {
	plan, err := newPlan(run)
	if err != nil {
		return err
	}
	t, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("transaction for new names: %w", err)
	}
	defer t.close()
	if err := t.tx.prepare(ctx); err != nil {
		return fmt.Errorf("add new names: %w", err)
	}
	p := pass{plan, t.tx}
	for _, r := range p.rows {
		if err := p.addName(ctx, r); err != nil {
			return fmt.Errorf("add %s to the fence: %w", r.Key(), err)
		}
	}
	if err := t.commit(ctx); err != nil {
		return fmt.Errorf("commit of new names: %w", err)
	}
	return nil
}

// addName inserts the missing rows of a name. As in pass.insert, a new name waits for readers of
// the names above. Rows that exist are not locked, because a transaction of a job may hold them.
func (p pass) addName(ctx context.Context, r row) error {
	known, err := p.known(ctx, r.Resource, tokenPart)
	if err != nil {
		return err
	}
	if !known {
		for _, above := range r.Ancestors() {
			if err := p.ensure(ctx, above, insertPart, true); err != nil {
				return err
			}
		}
		if err := p.insertMissing(ctx, r.Resource, tokenPart); err != nil {
			return err
		}
	}
	if !r.beneath {
		return nil
	}
	return p.insertMissing(ctx, r.Resource, insertPart)
}

// insertMissing inserts a row unless it is committed. In MariaDB and MySQL, the insert of a row
// that exists would wait for the transaction that has locked it.
func (p pass) insertMissing(ctx context.Context, r locking.Resource, part int16) error {
	known, err := p.known(ctx, r, part)
	if err != nil || known {
		return err
	}
	return p.insertRow(ctx, r, part)
}

// known reports whether a row is committed. It locks nothing.
func (p pass) known(ctx context.Context, r locking.Resource, part int16) (bool, error) {
	var token int64
	return p.tx.one(ctx, []any{&token}, readToken, p.cluster, r.Key(), part)
}
