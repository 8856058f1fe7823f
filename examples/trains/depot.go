package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
)

// depot fills the queue, starts the processes, and reads the locations.
type depot struct {
	options
	fleet    *fleet.Fleet
	db       *pgx.Conn
	messages []message
}

func newDepot(ctx context.Context, o options) (*depot, error) {
	f, err := fleet.New(ctx)
	if err != nil {
		return nil, err
	}
	d := &depot{options: o, fleet: f, messages: traffic(o)}
	if d.db, err = pgx.Connect(ctx, f.URL); err == nil {
		err = d.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *depot) close() error {
	var err error
	if d.db != nil {
		err = d.db.Close(context.Background())
	}
	return errors.Join(err, d.fleet.Stop())
}

func (d *depot) fill(ctx context.Context) error {
	if _, err := d.db.Exec(ctx, schema); err != nil {
		return err
	}
	_, err := d.db.CopyFrom(ctx, pgx.Identifier{"messages"},
		[]string{"id", "train", "number", "kind", "from_location", "to_location"},
		pgx.CopyFromSlice(len(d.messages), func(i int) ([]any, error) {
			m := d.messages[i]
			return []any{m.id, m.train, m.number, string(m.kind), m.from, m.to}, nil
		}))
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(`INSERT INTO trains (name) SELECT DISTINCT train FROM messages`)
	for i := range d.locations {
		b.Queue(`INSERT INTO locations (name) VALUES ($1)`, location(i))
	}
	return d.db.SendBatch(ctx, b).Close()
}

// result is what became of the traffic.
type result struct {
	messages                           int
	took                               time.Duration
	refused, postponed, changed, early int
	found, wanted                      map[string]counts
}

// process has all messages worked on. When a third is done, one process is
// killed, and another started in its place.
func (d *depot) process(ctx context.Context) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	start := time.Now()
	var crews []*fleet.Process
	for i := range d.processes {
		p, err := d.spawn(ctx, fmt.Sprintf("crew-%d", i+1))
		if err != nil {
			return nil, err
		}
		crews = append(crews, p)
	}
	if err := d.await(ctx, len(d.messages)/3); err != nil {
		return nil, err
	}
	if err := crews[0].Kill(); err != nil {
		return nil, err
	}
	var err error
	if crews[0], err = d.spawn(ctx, "crew-of-relief"); err != nil {
		return nil, err
	}
	r := &result{messages: len(d.messages), wanted: onePass(d.messages)}
	for _, p := range crews {
		if err := r.add(ctx, p); err != nil {
			return nil, err
		}
	}
	r.took = time.Since(start)
	r.found, err = d.read(ctx)
	return r, err
}

func (d *depot) spawn(ctx context.Context, name string) (*fleet.Process, error) {
	return d.fleet.Spawn(ctx, name, strconv.Itoa(d.workers))
}

// await returns when so many messages are done.
func (d *depot) await(ctx context.Context, n int) error {
	for {
		var done int
		if err := d.db.QueryRow(ctx, `SELECT count(*) FROM messages
			WHERE done_at IS NOT NULL`).Scan(&done); err != nil || done >= n {
			return err
		}
		if err := pause(ctx, idleTime); err != nil {
			return err
		}
	}
}

// add waits for a process's end and adds up what it tells.
func (r *result) add(ctx context.Context, p *fleet.Process) error {
	text, err := p.Expect(ctx, "done")
	if err != nil {
		return err
	}
	var refused, postponed, changed, early int
	if _, err := fmt.Sscan(text, &refused, &postponed, &changed, &early); err != nil {
		return fmt.Errorf("what %s tells: %q: %w", p.Name, text, err)
	}
	r.refused, r.postponed, r.changed, r.early = r.refused+refused, r.postponed+postponed,
		r.changed+changed, r.early+early
	return p.Wait(ctx)
}

func (d *depot) read(ctx context.Context) (map[string]counts, error) {
	rows, err := d.db.Query(ctx, `SELECT name, created, arrived, departed, deleted FROM locations`)
	if err != nil {
		return nil, err
	}
	found := map[string]counts{}
	var name string
	var c counts
	_, err = pgx.ForEachRow(rows, []any{&name, &c.created, &c.arrived, &c.departed, &c.deleted},
		func() error {
			found[name] = c
			return nil
		})
	return found, err
}

// check prints the locations, and returns an error where one does not show what
// a single pass gives.
func (r *result) check(out io.Writer) error {
	var problems []error
	fmt.Fprintf(out, "%-12s %8s %8s %8s %8s\n", "location", "created", "arrived", "departed",
		"deleted")
	for _, name := range slices.Sorted(maps.Keys(r.found)) {
		c := r.found[name]
		fmt.Fprintf(out, "%-12s %8d %8d %8d %8d\n", name, c.created, c.arrived, c.departed,
			c.deleted)
		if c != r.wanted[name] {
			problems = append(problems,
				fmt.Errorf("%s shows %+v, a single pass gives %+v", name, c, r.wanted[name]))
		}
	}
	if len(r.wanted) > len(r.found) {
		problems = append(problems,
			fmt.Errorf("%d locations, a single pass gives %d", len(r.found), len(r.wanted)))
	}
	if r.changed > 0 {
		problems = append(problems,
			fmt.Errorf("%d saves found that another had changed what was locked", r.changed))
	}
	return errors.Join(problems...)
}
