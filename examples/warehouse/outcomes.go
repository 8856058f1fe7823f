package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// outcome is how a run ended, and why if not by itself.
type outcome struct {
	state jobs.State
	why   string
}

// outcomes counts runs.
type outcomes map[outcome]int

// readOutcomes goes through the whole history, a page at a time.
func readOutcomes(ctx context.Context, history storage.History) (outcomes, error) {
	counts := outcomes{}
	filter := storage.RunFilter{Limit: storage.MaxBatch}
	for {
		runs, err := history.Runs(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, run := range runs {
			counts[outcomeOf(run)]++
		}
		if len(runs) < filter.Limit {
			return counts, nil
		}
		last := runs[len(runs)-1]
		filter.Before = &storage.RunCursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
}

var sqlstate = regexp.MustCompile(`\(SQLSTATE ([0-9A-Z]{5})\)`)

func outcomeOf(run storage.Record) outcome {
	o := outcome{state: run.State, why: string(run.Reason)}
	if o.why != "" || run.Error == "" {
		return o
	}
	o.why = "other error"
	if match := sqlstate.FindStringSubmatch(run.Error); match != nil {
		o.why = sqlstateWords(match[1])
	}
	return o
}

func sqlstateWords(code string) string {
	switch code {
	case deadlockDetected:
		return "deadlock"
	case serializationFailure:
		return "serialization failure"
	default:
		return "SQLSTATE " + code
	}
}

// String is the outcome as the table shows it.
func (o outcome) String() string {
	if o.why == "" {
		return string(o.state)
	}
	return fmt.Sprintf("%s: %s", o.state, o.why)
}

// kinds returns what occurs in any of the counts, in the order of a run's
// life.
func kinds(counts ...outcomes) []outcome {
	seen := outcomes{{state: jobs.Succeeded}: 0}
	for _, c := range counts {
		for o := range c {
			seen[o] = 0
		}
	}
	all := make([]outcome, 0, len(seen))
	for o := range seen {
		all = append(all, o)
	}
	order := jobs.States()
	slices.SortFunc(all, func(a, b outcome) int {
		return cmp.Or(slices.Index(order, a.state)-slices.Index(order, b.state),
			cmp.Compare(a.why, b.why))
	})
	return all
}
