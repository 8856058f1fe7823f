package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
)

// result is what the nodes did, in all and a second.
type result struct {
	served, timedOut, shed float64 // a second
	p50, p99               time.Duration
	overlaps               int
}

// measure has the nodes serve the load.
func measure(ctx context.Context, f *fleet.Fleet, o options) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, o.duration+time.Minute)
	defer cancel()
	var nodes []*fleet.Process
	for i := range o.nodes {
		p, err := f.Spawn(ctx, fmt.Sprintf("node-%d", i+1), "load", fmt.Sprint(o.customers),
			fmt.Sprint(o.rate/float64(o.nodes)), o.duration.String())
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, p)
	}
	r := &result{}
	var changes []change
	for _, p := range nodes {
		more, err := r.add(ctx, p)
		if err != nil {
			return nil, errors.Join(err, p.Wait(ctx))
		}
		changes = append(changes, more...)
	}
	var err error
	r.overlaps, err = overlaps(changes)
	return r, err
}

// add reads what a node reports, and waits for its end. Of the percentiles the
// worst node's are kept.
func (r *result) add(ctx context.Context, p *fleet.Process) ([]change, error) {
	var changes []change
	for line := range p.Lines {
		if text, is := strings.CutPrefix(line, "change "); is {
			c, err := parseChange(text)
			if err != nil {
				return nil, err
			}
			changes = append(changes, c)
		}
		if text, is := strings.CutPrefix(line, "report "); is {
			var served, timedOut, shed, took, p50, p99 int64
			if _, err := fmt.Sscan(text, &served, &timedOut, &shed, &took, &p50, &p99); err != nil {
				return nil, fmt.Errorf("report %q: %w", text, err)
			}
			seconds := time.Duration(took).Seconds()
			r.served, r.timedOut, r.shed = r.served+float64(served)/seconds,
				r.timedOut+float64(timedOut)/seconds, r.shed+float64(shed)/seconds
			r.p50, r.p99 = max(r.p50, time.Duration(p50)), max(r.p99, time.Duration(p99))
		}
	}
	return changes, p.Wait(ctx)
}
