package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// peers are figures of other schedulers at the same loads, measured once on a
// machine of the same size.
var peers = [][]string{
	{"Quartz 2.3.2, batch 50, 25 threads", "300", "100 %", "0", "238", "539"},
	{"Quartz 2.3.2, batch 100, 25 threads", "1000", "61 %", "0", "9922", "13780"},
	{"gocron 2.21 with a Redis locker", "300", "100 %", "606 of 5700", "38", "183"},
	{"gocron 2.21 with a Redis locker", "1000", "100 %", "2295 of 19000", "70", "174"},
	{"River 0.51 periodic jobs", "1000", "100 %", "0", "93", "213"},
}

// printResults writes the tables for people.
func printResults(out io.Writer, o options, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\n\t")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t", r.scheduler)
	}
	fmt.Fprintf(table, "\njobs every second, for %d s\t", o.seconds)
	for _, r := range results {
		fmt.Fprintf(table, "%d\t", r.jobs)
	}
	fmt.Fprintln(table)
	for _, l := range lines {
		fmt.Fprintf(table, "%s\t", l.what)
		for _, r := range results {
			fmt.Fprintf(table, "%s\t", l.show(r))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.tally.never > 0 {
			fmt.Fprintf(out, "%d jobs: what is recorded of the firings that never ran: %s\n",
				r.jobs, describeNever(r.tally.neverBy))
		}
	}
	return printPeers(out, o, results)
}

// line is a line of the table.
type line struct {
	what string
	show func(r result) string
}

var lines = []line{
	{"firings", func(r result) string { return fmt.Sprint(r.tally.firings) }},
	{"ran once", func(r result) string { return fmt.Sprint(r.tally.once) }},
	{"ran twice or more", func(r result) string { return fmt.Sprint(r.tally.more) }},
	{"ran never", func(r result) string { return fmt.Sprint(r.tally.never) }},
	{"rows and history that disagree", func(r result) string {
		return fmt.Sprint(r.tally.orphans + r.tally.unbacked + r.tally.foreign)
	}},
	{"start delay, p50 / p99, ms", func(r result) string {
		return milliseconds(r.tally.started)
	}},
	{"shared tables busy, %", func(r result) string {
		if r.shared.busy == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f", 100*r.shared.busy)
	}},
	{"free between runs of one replica, mean / p99, ms (number)", func(r result) string {
		return r.shared.here.String()
	}},
	{"free between runs of two replicas, mean / p99, ms (number)", func(r result) string {
		return r.shared.elsewhere.String()
	}},
	{"delay of the row, p50 / p99, ms", func(r result) string {
		return milliseconds(r.tally.inserted)
	}},
	{"delay of the end, p50 / p99, ms", func(r result) string {
		return milliseconds(r.tally.finished)
	}},
	{"ended in the measured seconds, runs", func(r result) string {
		return fmt.Sprint(r.tally.ended)
	}},
	{"processor time of the replicas, ms/s", func(r result) string {
		return r.busy(r.cost.replicas)
	}},
	{"of PostgreSQL, ms/s", func(r result) string { return r.busy(r.cost.postgres) }},
	{"of memcached, ms/s", func(r result) string { return r.busy(r.cost.memcached) }},
	{"of all, µs a run", func(r result) string {
		return r.each(int64((r.cost.replicas + r.cost.postgres +
			r.cost.memcached) / time.Microsecond))
	}},
	{"transactions a run", func(r result) string {
		return fmt.Sprintf("%.2f", float64(r.cost.transactions)/r.runs())
	}},
	{"write-ahead log, bytes a run", func(r result) string { return r.each(r.cost.wal) }},
	{"memcached commands a run", func(r result) string {
		return fmt.Sprintf("%.2f", float64(r.cost.commands)/r.runs())
	}},
	{"memory of the largest replica process, MB", func(r result) string {
		return fmt.Sprintf("%.0f", float64(r.memory)/(1<<20))
	}},
}

func milliseconds(l delays) string {
	return fmt.Sprintf("%d / %d", l.percentile(0.5).Milliseconds(),
		l.percentile(0.99).Milliseconds())
}

func (r result) busy(d time.Duration) string {
	return fmt.Sprint((d / time.Duration(r.seconds)).Milliseconds())
}

// runs is the divisor of the costs: how many runs ended while they were counted.
func (r result) runs() float64 { return float64(max(r.tally.ended, 1)) }

func (r result) each(n int64) string { return fmt.Sprintf("%.0f", float64(n)/r.runs()) }

func describeNever(by map[string]int) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(by)) {
		name := state
		if state == "" {
			name = "nothing"
		}
		parts = append(parts, fmt.Sprintf("%s %d", name, by[state]))
	}
	return strings.Join(parts, ", ")
}

// printPeers puts the results beside what others do.
func printPeers(out io.Writer, o options, results []result) error {
	fmt.Fprint(out, `
For orientation, others at such loads: 3 nodes, 20 s, a handler that does nothing (-no-op here),
no locks on tables.
Those figures are of another day, on another machine of 2 cores; compare ratios, not milliseconds.
`)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tjobs/s\tfired\tmore than once\tlate p50 ms\tp99 ms")
	for _, r := range results {
		fmt.Fprintf(table, "%s, %d nodes, %s\t%d\t%s\t%d\t%d\t%d\n", r.scheduler, o.replicas,
			o.work(),
			r.jobs, r.tally.fired(), r.tally.more,
			r.tally.started.percentile(0.5).Milliseconds(),
			r.tally.started.percentile(0.99).Milliseconds())
	}
	for _, p := range peers {
		fmt.Fprintln(table, strings.Join(p, "\t"))
	}
	return table.Flush()
}

func (t tally) fired() string {
	share := 100 * float64(t.firings-t.never) / float64(t.firings)
	if t.never > 0 {
		return fmt.Sprintf("%.1f %%", min(share, 99.9))
	}
	return "100 %"
}
