package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// beforeBurst is how long before a second begins the counters are read: the
// firings of the second before have ended, unless the load is too much.
const beforeBurst = 50 * time.Millisecond

// load is one number of jobs to be measured with one scheduler.
type load struct {
	servers   *servers
	options   options
	scheduler scheduler
	number    int // of the load, from 1
	jobs      int
	out       io.Writer
}

// scheduler is what is measured: Holdfast, or a peer.
type scheduler struct {
	name  string // as in the name of its databases
	start func(ctx context.Context, l load, dir string) (nodes, error)
	pairs string // runs and rows, as tallyOf expects them
	ended string // counts the runs of a window that have ended
}

// nodes are the processes of one load.
type nodes interface {
	pids() []int
	// stop asks all processes to stop and waits for them. It returns an error if one did not end
	// well, or had ended before.
	stop(ctx context.Context) error
	// kill ends what is left of the processes; after stop it does nothing.
	kill() error
}

// result is what was measured at one load.
type result struct {
	scheduler  string
	jobs       int
	seconds    int
	tally      tally
	shared     contention // of the shared tables; zero without
	cost       cost
	statements []statement // only with the flag -statements
	memory     int64       // resident bytes of the largest replica at the end
}

func (l load) database() string { return fmt.Sprintf("%s_%d", l.scheduler.name, l.number) }

// measure runs the load from start to stop.
func (l load) measure(ctx context.Context) (_ result, err error) {
	fmt.Fprintf(l.out, "\n%s: %d jobs every second …\n", l.scheduler.name, l.jobs)
	if err := l.servers.postgres.CreateDatabase(ctx, l.database(), "template0"); err != nil {
		return result{}, err
	}
	db, err := pgx.Connect(ctx, l.servers.postgres.URL(l.database())+"&application_name=bench")
	if err != nil {
		return result{}, fmt.Errorf("database: %w", err)
	}
	defer db.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all was read
	if _, err := db.Exec(ctx, jobTables(l.jobs)); err != nil {
		return result{}, fmt.Errorf("tables of the jobs: %w", err)
	}
	dir := filepath.Join(l.servers.dir, l.database())
	if err := os.Mkdir(dir, 0o755); err != nil {
		return result{}, fmt.Errorf("folder of the replicas: %w", err)
	}
	c, err := l.scheduler.start(ctx, l, dir)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, c.kill()) }()
	r, w, err := l.observe(ctx, db, c)
	if err != nil {
		return result{}, err
	}
	if err := c.stop(ctx); err != nil {
		return result{}, err
	}
	if l.options.tables > 0 {
		if r.shared, err = readContention(ctx, db, w, l.options.tables); err != nil {
			return r, err
		}
	}
	if r.tally, err = count(ctx, db, l.scheduler.pairs, w); err != nil {
		return r, err
	}
	if l.options.statements {
		err = printStatements(l.out, r.statements, r.tally.ended)
	}
	return r, err
}

// observe reads the counters at both ends of the measured seconds, and waits
// for late firings.
func (l load) observe(ctx context.Context, db *pgx.Conn, c nodes) (result, window, error) {
	r := result{scheduler: l.scheduler.name, jobs: l.jobs, seconds: l.options.seconds}
	w, err := l.window(ctx, db)
	if err != nil {
		return r, w, err
	}
	source := counterSource{db: db, replicas: c.pids(), memcached: l.servers.memcached.Addr()}
	from, until := w.counted()
	before, err := source.readAt(ctx, from)
	if err != nil {
		return r, w, err
	}
	if l.options.statements {
		if err := resetStatements(ctx, db); err != nil {
			return r, w, err
		}
	}
	after, err := source.readAt(ctx, until)
	if err != nil {
		return r, w, err
	}
	r.cost = after.since(before)
	if r.memory, err = largestMemory(c.pids()); err != nil {
		return r, w, err
	}
	if l.options.statements {
		if r.statements, err = readStatements(ctx, db); err != nil {
			return r, w, err
		}
	}
	return r, w, l.awaitLate(ctx, db, w)
}

// window returns the seconds to be measured: those after the warm-up.
func (l load) window(ctx context.Context, db *pgx.Conn) (window, error) {
	var now time.Time
	if err := db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return window{}, fmt.Errorf("clock: %w", err)
	}
	from := now.Add(l.options.warmUp + beforeBurst + time.Second).Truncate(time.Second)
	return window{jobs: l.jobs, noOp: l.options.noOp, from: from.UTC(),
		until: from.UTC().Add(time.Duration(l.options.seconds) * time.Second)}, nil
}

// awaitLate waits until every firing of the window has ended, or the grace has.
func (l load) awaitLate(ctx context.Context, db *pgx.Conn, w window) error {
	deadline := time.Now().Add(time.Until(w.until) + l.options.grace)
	for time.Now().Before(deadline) {
		var ended int
		err := db.QueryRow(ctx, l.scheduler.ended, w.from, w.until).Scan(&ended)
		if err != nil {
			return fmt.Errorf("runs that ended: %w", err)
		}
		if ended >= w.firings() {
			return nil
		}
		if err := sleepUntil(ctx, time.Now().Add(100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) error {
	select {
	case <-time.After(time.Until(t)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// check returns an error for what must not be at any load.
func (r result) check() error {
	var problems []error
	for _, p := range []struct {
		n    int
		what string
	}{
		{r.tally.more, "firings ran more than once"},
		{r.tally.orphans, "rows belong to no run"},
		{r.tally.unbacked, "runs are recorded as succeeded without their row"},
		{r.tally.foreign, "rows belong to runs that are not recorded as succeeded"},
	} {
		if p.n > 0 {
			problems = append(problems, fmt.Errorf("%d jobs: %d %s", r.jobs, p.n, p.what))
		}
	}
	return errors.Join(problems...)
}
