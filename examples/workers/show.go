package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
)

const createVisits = `
CREATE TABLE visits (part text NOT NULL, worker text NOT NULL, token bigint PRIMARY KEY,
    entered timestamptz NOT NULL, left_at timestamptz)`

// show starts the workers and reads what they wrote down.
type show struct {
	fleet   *fleet.Fleet
	db      *pgx.Conn
	workers int
	turns   int
}

func newShow(ctx context.Context, workers, turns int) (*show, error) {
	if workers < 2 || workers > 50 || turns < 1 {
		return nil, errors.New("expected 2 to 50 workers, and a turn at least")
	}
	f, err := fleet.New(ctx)
	if err != nil {
		return nil, err
	}
	s := &show{fleet: f, workers: workers, turns: turns}
	if s.db, err = pgx.Connect(ctx, f.URL); err == nil {
		_, err = s.db.Exec(ctx, createVisits)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *show) close() error {
	var err error
	if s.db != nil {
		err = s.db.Close(context.Background())
	}
	return errors.Join(err, s.fleet.Stop())
}

// play has all workers take their turns at once.
func (s *show) play(ctx context.Context, part string) (seen, error) {
	var all []*fleet.Process
	for i := range s.workers {
		p, err := s.fleet.Spawn(ctx, fmt.Sprintf("%s-%d", part, i+1), part, strconv.Itoa(s.turns))
		if err != nil {
			return seen{}, err
		}
		all = append(all, p)
	}
	refused := 0
	for _, p := range all {
		text, err := p.Expect(ctx, "done, refused")
		if err == nil {
			err = p.Wait(ctx)
		}
		if err != nil {
			return seen{}, err
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return seen{}, err
		}
		refused += n
	}
	v, err := s.look(ctx, part)
	v.refused, v.expected = refused, s.workers*s.turns
	return v, err
}

// seen is what the visits of one part show.
type seen struct {
	part     string
	visits   int
	expected int
	workers  int // that came in at all
	most     int // inside at the same time
	refused  int
	// the middle of the times from a going out to the coming in that it made room for
	handOver time.Duration
}

// How many are inside changes by one at each coming and going; of two at one
// instant the going counts first.
const readVisits = `
WITH v AS (
    SELECT * FROM visits WHERE part = $1
), steps AS (
    SELECT entered AS at, 1 AS step FROM v UNION ALL SELECT left_at, -1 FROM v
        WHERE left_at IS NOT NULL
), inside AS (
    SELECT sum(step) OVER (ORDER BY at, step) AS n FROM steps
), gaps AS (
    SELECT entered - lag(left_at, $2) OVER (ORDER BY entered) AS gap FROM v
)
SELECT (SELECT count(*) FROM v WHERE left_at IS NOT NULL), (SELECT count(DISTINCT worker) FROM v),
    (SELECT coalesce(max(n), 0) FROM inside),
    coalesce((SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY gap) FROM gaps
        WHERE gap > interval '0'), interval '0')`

func (s *show) look(ctx context.Context, part string) (seen, error) {
	v := seen{part: part}
	err := s.db.QueryRow(ctx, readVisits, part, v.limit()).
		Scan(&v.visits, &v.workers, &v.most, &v.handOver)
	return v, err
}

// limit is how many may be inside.
func (v seen) limit() int {
	if v.part == semaphore {
		return slots
	}
	return 1
}

// String is the line that is printed.
func (v seen) String() string {
	return fmt.Sprintf("%s: %d visits of %d workers, at most %d inside (limit %d), refused %d "+
		"times, %s from one to the next",
		v.part, v.visits, v.workers, v.most, v.limit(), v.refused,
		v.handOver.Round(100*time.Microsecond))
}

// check returns an error if too many workers were inside at once, or if a worker never was.
func (v seen) check() error {
	if v.most > v.limit() {
		return fmt.Errorf("%s: %d were inside at once, expected at most %d", v.part, v.most,
			v.limit())
	}
	if v.visits != v.expected {
		return fmt.Errorf("%s: %d visits, expected %d", v.part, v.visits, v.expected)
	}
	return nil
}

// killOneInside fills all slots with workers that stay, kills one of them, and
// returns how long it took until another, which waited, was inside.
func (s *show) killOneInside(ctx context.Context) (time.Duration, error) {
	var inside []*fleet.Process
	for i := range slots {
		p, err := s.fleet.Spawn(ctx, fmt.Sprintf("%s-%d", stay, i+1), stay, "1")
		if err != nil {
			return 0, err
		}
		if _, err := p.Expect(ctx, "inside"); err != nil {
			return 0, err
		}
		inside = append(inside, p)
	}
	waiting, err := s.fleet.Spawn(ctx, "successor", stay, "1")
	if err != nil {
		return 0, err
	}
	if _, err := waiting.Expect(ctx, "joined"); err != nil {
		return 0, err
	}
	killed := time.Now()
	if err := inside[0].Kill(); err != nil {
		return 0, err
	}
	if _, err := waiting.Expect(ctx, "inside"); err != nil {
		return 0, err
	}
	took := time.Since(killed)
	for _, p := range append(inside[1:], waiting) {
		if err := p.Kill(); err != nil {
			return 0, err
		}
	}
	return took, nil
}
