package jobstest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestTx checks the transactions of handlers that work on either store. Granted returns a run that
// has its claim, and revoke deletes the claim of a run.
func TestTx(t *testing.T, granted func() *jobs.Run, state func(*jobs.Run) jobs.State,
	revoke func(*jobs.Run)) {
	ctx := t.Context()
	within := func(run *jobs.Run, fn func(tx jobs.Tx) error) {
		t.Helper()
		if err := run.InTx(ctx, fn); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(tx jobs.Tx) error {
		rows, err := tx.Exec(ctx, "INSERT INTO sales (region, amount) VALUES ($1, $2), ($1, 8)",
			"north", 7)
		if err == nil && rows != 2 {
			t.Errorf("got %d affected rows, want 2", rows)
		}
		return err
	}
	total := func(run *jobs.Run) (total int) {
		t.Helper()
		within(run, func(tx jobs.Tx) error {
			total = sum(t, ctx, tx)
			return nil
		})
		return total
	}
	run := granted()
	within(run, func(tx jobs.Tx) error {
		_, err := tx.Exec(ctx, "CREATE TABLE sales (region text, amount integer)")
		return err
	})
	within(run, insert)
	refused := errors.New("refused by the handler")
	if err := run.InTx(ctx, func(tx jobs.Tx) error {
		return errors.Join(insert(tx), refused)
	}); !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of the handler", err)
	}
	if got := total(run); got != 15 {
		t.Errorf("after a commit and a rollback: got a total of %d, want 15", got)
	}
	if err := run.CompleteInTx(ctx, insert); err != nil {
		t.Fatal(err)
	}
	if got := state(run); got != jobs.Succeeded {
		t.Errorf("got state %s of a completed run, want %s", got, jobs.Succeeded)
	}
	lost := granted()
	revoke(lost)
	for name, call := range map[string]func(context.Context, func(jobs.Tx) error) error{
		"InTx": lost.InTx, "CompleteInTx": lost.CompleteInTx,
	} {
		if err := call(ctx, insert); !errors.Is(err, storage.ErrSuperseded) {
			t.Errorf("%s without a claim: got %v, want storage.ErrSuperseded", name, err)
		}
	}
	if got := total(granted()); got != 30 {
		t.Errorf("in the end: got a total of %d, want 30", got)
	}
}

func sum(t *testing.T, ctx context.Context, tx jobs.Tx) (total int) {
	t.Helper()
	enough := errors.New("enough")
	rows := 0
	query := "SELECT amount FROM sales WHERE region = $1"
	if err := tx.Query(ctx, func(scan func(...any) error) error {
		var amount int
		rows++
		if err := scan(&amount); err != nil {
			return err
		}
		total += amount
		return nil
	}, query, "north"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Query(ctx, func(func(...any) error) error { return enough }, query,
		"north"); rows > 0 && !errors.Is(err, enough) {
		t.Errorf("got %v, want the error of the function for rows", err)
	}
	return total
}
