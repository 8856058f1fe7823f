package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// nameWidth is that of the first column.
const nameWidth = 41

// print writes the tables for people.
func (m measurement) print(out io.Writer) error {
	fmt.Fprintln(out)
	if err := m.printCounts(out); err != nil {
		return err
	}
	if err := m.without.printTotals(out, "Without locks"); err != nil {
		return err
	}
	return m.with.printTotals(out, "With locks")
}

// printCounts writes what happened in each phase.
func (m measurement) printCounts(out io.Writer) error {
	table := newTable(out)
	row := func(what string, of func(result) any) { table.row(what, of(m.without), of(m.with)) }
	table.row("", "without locks", "with locks")
	row("transactions of pgbench", func(r result) any { return r.transactions })
	row("deadlocks (pg_stat_database), before", func(r result) any { return r.before.deadlocks })
	row("deadlocks, after", func(r result) any { return r.after.deadlocks })
	row("  that ended a replica's transaction", func(r result) any { return r.victims("holdfast") })
	row("  that ended one of pgbench", func(r result) any { return r.victims("pgbench") })
	row("serialization failures (40001), before", func(r result) any {
		return r.before.of(serializationFailure)
	})
	row("serialization failures, after", func(r result) any {
		return r.after.of(serializationFailure)
	})
	for _, o := range kinds(m.without.outcomes, m.with.outcomes) {
		row("runs "+o.String(), func(r result) any { return r.outcomes[o] })
	}
	row("audits that saw the totals disagree", func(r result) any { return r.audits })
	row("totals unlike a single pass", func(r result) any { return r.unequal() })
	return table.Flush()
}

// printTotals writes each total beside what a single pass gives.
func (r result) printTotals(out io.Writer, phase string) error {
	fmt.Fprintf(out, "\n%s, what the jobs wrote beside what a single pass over the data gives:\n",
		phase)
	if !r.settled {
		fmt.Fprintf(out, "%v: the totals lack its last rows\n", errNotSettled)
	}
	table := newTable(out)
	table.row("", "rows", "entries", "single pass", "amount", "single pass", "rows that differ")
	for _, t := range r.totals {
		table.row(t.name, t.rows, t.written.entries, t.single.entries, t.written.amount,
			t.single.amount, t.words())
	}
	return table.Flush()
}

// words says whether the total is right.
func (t total) words() string {
	if t.equal() {
		return "none, equal"
	}
	return strconv.Itoa(t.differing)
}

// textTable aligns its first column to the left and the others to the right.
type textTable struct{ *tabwriter.Writer }

func newTable(out io.Writer) textTable {
	return textTable{tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)}
}

func (t textTable) row(what string, cells ...any) {
	fmt.Fprintf(t, "%-*s\t", nameWidth, what)
	for _, cell := range cells {
		fmt.Fprintf(t, "%v\t", cell)
	}
	fmt.Fprintln(t)
}

// victims counts the deadlocks that ended a transaction of the application.
func (r result) victims(application string) int64 {
	f := failure{application: application, sqlstate: deadlockDetected}
	return r.after.errors[f] - r.before.errors[f]
}

func (r result) unequal() string {
	n := 0
	for _, t := range r.totals {
		if !t.equal() {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(r.totals))
}

// String is the audits as the table shows them.
func (a audits) String() string { return fmt.Sprintf("%d of %d", a.differing, a.made) }
