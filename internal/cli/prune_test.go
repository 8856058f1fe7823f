package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// prunes answers requests in turn.
type prunes struct {
	answers  []storage.Pruned
	requests []storage.PruneRequest
}

func (p *prunes) Prune(_ context.Context, _ uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	p.requests = append(p.requests, r)
	if len(p.answers) == 0 {
		return storage.Pruned{}, errors.New("no more answers")
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return answer, nil
}

func TestPruneOfAFileNamesTheProcessThatPrunes(t *testing.T) {
	const want = "prune history: with SQLite, only the process that runs the jobs can delete " +
		"history, and it does so each minute"
	if o := perform(t, nil, "prune", "-c", explainedStore(t)); o.code != 1 || o.err != want {
		t.Errorf("got %+v, want %q", o, want)
	}
}

func TestPruneRepeatsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &storage.RunCursor{ID: uuid.New()}
		const all = storage.MaxBatch
		store := &prunes{answers: []storage.Pruned{{Busy: true}, {Busy: true},
			{Runs: all, Next: next}, {Runs: 3, Audited: all}, {Audited: 5, Pauses: 1},
			{Runs: all, More: true}, {Runs: 1}}}
		begin := time.Now()
		pruned, err := new(commandLine).prune(t.Context(), store,
			configs.History{Keep: 48 * time.Hour, KeepTriggered: time.Hour})
		if want := (prunedRows{Runs: 2*all + 4, Audited: all + 5, Pauses: 1}); err != nil ||
			pruned != want {
			t.Errorf("got %+v, %v, want %+v", pruned, err, want)
		}
		if took := time.Since(begin); took != 2*pruneAgain {
			t.Errorf("it waited for %s, want %s", took, 2*pruneAgain)
		}
		old := storage.PruneRequest{Keep: 48 * time.Hour, Limit: all}
		rest := old
		rest.After = next
		triggered := storage.PruneRequest{Keep: time.Hour, Triggered: true, Limit: all}
		if want := []storage.PruneRequest{old, old, old, rest, rest, triggered,
			triggered}; !slices.Equal(store.requests, want) {
			t.Errorf("it asked for %+v, want %+v", store.requests, want)
		}
	})
}

func TestPruneEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), pruneAgain/2)
		defer cancel()
		store := &prunes{answers: []storage.Pruned{{Busy: true}}}
		_, err := new(commandLine).prune(ctx, store, configs.History{Keep: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestPrune deletes the old runs of a database that no replica uses.
func TestPrune(t *testing.T) {
	if server == nil {
		t.Skip("needs PostgreSQL")
	}
	url := server.Database(t)
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	text := "database: {url: '" + url + "'}\nhistory: {keep: 48h}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	commandOutput(t, "migrate", "-c", config)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := conn.Exec(t.Context(), `
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, finished_at)
SELECT gen_random_uuid(), 'a', at, 'succeeded', at, at
FROM generate_series(1, 2500) n, LATERAL (SELECT now() - n * interval '1 minute'
    - CASE WHEN n > 10 THEN interval '3 days' ELSE interval '0' END AS at) t`); err != nil {
		t.Fatal(err)
	}
	const want = "deleted 2490 runs, 0 audit entries, 0 pauses and 0 definitions\n"
	if got := commandOutput(t, "prune", "-c", config); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM holdfast.runs").Scan(
		&left); err != nil || left != 10 {
		t.Errorf("%d runs are left (%v), want 10", left, err)
	}
}
