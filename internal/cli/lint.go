package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/sqltables"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// lintCommand returns the command "lint".
func (c *commandLine) lintCommand() *cobra.Command {
	return &cobra.Command{
		Use: "lint", Short: "Find tables that jobs share without a lock", Args: cobra.NoArgs,
		Long: `Find tables that the statements of sql jobs write or read, that another job writes,
reads or locks, and that the job itself does not lock. A table that no other job uses
needs no lock. It is reported only if its job writes it, does not lock it, and locks
another table that no statement of the job names, which may be a wrong name.

The command reads the text of the statements. It does not see tables behind views,
functions, triggers and foreign keys, and no tables of jobs with other handlers
unless they are locked. It needs no database. The exit code is 1 if it finds a
table.`,
		RunE: func(*cobra.Command, []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			report := lint(config)
			rows := make([][]string, len(report.Findings))
			for i, f := range report.Findings {
				others := cmp.Or(strings.Join(f.Others, ", "), "-")
				rows[i] = []string{f.Job, f.Table, f.Access, others, f.Advice}
			}
			const header = "JOB\tTABLE\tACCESS\tALSO USED BY\tADVICE"
			if err := c.print(report, header, rows); err != nil {
				return err
			}
			if !c.format.structured() {
				if _, err := fmt.Fprintf(c.out,
					"checked: %s, not checked: %s\n",
					plural.Of(report.Checked, "sql job", "sql jobs"),
					plural.Of(report.Unchecked, "other job", "other jobs")); err != nil {
					return err
				}
			}
			if len(report.Findings) > 0 {
				return &ExitError{Code: 1}
			}
			return nil
		},
	}
}

// lintReport is the result of the command "lint".
type lintReport struct {
	Findings  []lintFinding `json:"findings"`
	Checked   int           `json:"checked"`   // jobs with the handler sql
	Unchecked int           `json:"unchecked"` // other jobs: only their locks are known
}

// lintFinding is a table that a job uses and does not lock. The job shares it with others, or locks
// another table that it does not use.
type lintFinding struct {
	Job    string   `json:"job"`
	Table  string   `json:"table"`
	Access string   `json:"access"` // "write" or "read"
	Others []string `json:"others"` // the jobs that write the table, and for a write also readers
	Advice string   `json:"advice"`
}

// tableUse is a table that a job names.
type tableUse struct {
	table locking.Resource
	write bool
}

// lintedJob is a job with the tables that it uses.
type lintedJob struct {
	name  string
	uses  []tableUse
	locks []locking.Request
}

// lint finds shared tables without locks.
func lint(config *configs.Config) lintReport {
	report := lintReport{Findings: []lintFinding{}}
	var linted []lintedJob
	for i, job := range app.Jobs(config) {
		l := lintedJob{name: job.Name, locks: config.Jobs[i].Requests}
		if job.Handler == "sql" {
			report.Checked++
			l.uses = usesOf(job, config.DefaultSchema)
		} else {
			report.Unchecked++
		}
		linted = append(linted, l)
	}
	for _, job := range linted {
		for _, use := range job.uses {
			if job.isLocked(use) {
				continue
			}
			others := sharers(linted, job.name, use)
			unused := job.unusedLocks()
			switch {
			case len(others) > 0:
				report.Findings = append(report.Findings, job.finding(use, others))
			case use.write && len(unused) > 0:
				f := job.finding(use, []string{})
				f.Advice += fmt.Sprintf("; no statement names %s, which the job locks",
					strings.Join(unused, ", "))
				report.Findings = append(report.Findings, f)
			}
		}
	}
	slices.SortFunc(report.Findings, func(a, b lintFinding) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Job, b.Job))
	})
	return report
}

// usesOf returns the tables in the statements of a sql job. A table that is written is not listed
// as read too.
func usesOf(job jobs.Job, schema string) (uses []tableUse) {
	var params struct {
		Statement  string   `json:"statement"`
		Statements []string `json:"statements"`
	}
	if json.Unmarshal(job.Params, &params) != nil {
		return nil // the check of the configuration reports it
	}
	text := strings.Join(append([]string{params.Statement}, params.Statements...), ";\n")
	for _, m := range sqltables.Find(text) {
		table, err := locking.TableIn(job.Database, m.Name, schema)
		if err != nil {
			continue // no name of a table that a job can lock
		}
		same := slices.IndexFunc(uses, func(u tableUse) bool { return u.table == table })
		if same < 0 {
			uses = append(uses, tableUse{table, m.Write})
		} else if m.Write {
			uses[same].write = true
		}
	}
	return uses
}

// unusedLocks returns the tables and schemas that the job locks exclusively although no statement
// names them. Statements can use them through a view or a function.
func (j lintedJob) unusedLocks() (names []string) {
	for _, r := range j.locks {
		if r.Mode != locking.Exclusive || r.Resource.Kind() != locking.KindTable {
			continue
		}
		if !slices.ContainsFunc(j.uses, func(u tableUse) bool {
			return r.Resource.Related(u.table)
		}) {
			names = append(names, r.Resource.String())
		}
	}
	return names
}

// isLocked reports whether the job locks a table as it uses it, by itself or by its schema.
func (j lintedJob) isLocked(use tableUse) bool {
	return slices.ContainsFunc(j.locks, func(r locking.Request) bool {
		covers := r.Resource == use.table || slices.Contains(use.table.Ancestors(), r.Resource)
		return covers && (r.Mode == locking.Exclusive || r.Mode == locking.Shared && !use.write)
	})
}

// sharers returns the other jobs that write the table, and for a write also those that read it.
func sharers(linted []lintedJob, job string, use tableUse) (names []string) {
	for _, other := range linted {
		if other.name == job {
			continue
		}
		uses := slices.ContainsFunc(other.uses, func(u tableUse) bool {
			return u.table == use.table && (u.write || use.write)
		})
		locks := slices.ContainsFunc(other.locks, func(r locking.Request) bool {
			return r.Resource.Related(use.table) && (use.write || r.Mode == locking.Exclusive)
		})
		if uses || locks {
			names = append(names, other.name)
		}
	}
	return names
}

// finding returns what is wrong and what to do.
func (j lintedJob) finding(use tableUse, others []string) lintFinding {
	f := lintFinding{Job: j.name, Table: use.table.String(), Access: "read", Others: others,
		Advice: "add it to read_tables"}
	if use.write {
		f.Access, f.Advice = "write", "add it to tables"
		if j.isLocked(tableUse{use.table, false}) {
			f.Advice = "move it from read_tables to tables"
		}
	}
	return f
}
