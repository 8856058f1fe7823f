package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const lintedConfig = `
database: {url: "postgres://nobody@127.0.0.1:1/none"}
databases: {warehouse: {url: "postgres://nobody@127.0.0.1:1/warehouse"}}
jobs:
  - {name: sound, schedule: "@daily", handler: sql, tables: [totals], read_tables: [sales], params: {statement: "INSERT INTO totals SELECT * FROM sales"}}
  - {name: writer, schedule: "@daily", handler: sql, params: {statement: "UPDATE Public.Totals SET x = 1"}}
  - {name: reader, schedule: "@daily", handler: sql, params: {statements: ["SELECT 1", "SELECT * FROM totals JOIN quiet ON true"]}}
  - {name: weak, schedule: "@daily", handler: sql, read_tables: [sales], params: {statement: "DELETE FROM sales"}}
  - {name: whole, schedule: "@daily", handler: sql, tables: ["archive.*"], params: {statement: "INSERT INTO archive.sales SELECT * FROM alone"}}
  - {name: other, schedule: "@daily", handler: command, tables: [archive.sales], params: {command: ["true"]}}
  - {name: elsewhere, schedule: "@daily", handler: sql, database: warehouse, tables: [totals], params: {statement: "INSERT INTO totals SELECT * FROM sales"}}
  - {name: beside, schedule: "@daily", handler: sql, database: warehouse, params: {statement: "SELECT * FROM totals"}}
  - {name: alone, schedule: "@daily", handler: sql, params: {statement: "UPDATE mine SET x = 1"}}
`

// TestLint checks which tables are found, and that each finding says what to do.
func TestLint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte(lintedConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	got := perform(t, nil, "lint", "-c", path, "-o", "json")
	var report lintReport
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	var lines []string
	for _, f := range report.Findings {
		lines = append(lines, strings.Join([]string{f.Job, f.Access, f.Table,
			strings.Join(f.Others, "+"), f.Advice}, " "))
	}
	want := []string{
		"weak write public/sales sound move it from read_tables to tables",
		"reader read public/totals sound+writer add it to read_tables",
		"writer write public/totals sound+reader add it to tables",
		"beside read warehouse:public/totals elsewhere add it to read_tables",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") || report.Checked != 8 ||
		report.Unchecked != 1 {
		t.Errorf("got %s and %+v, want %s", strings.Join(lines, "\n"), report,
			strings.Join(want, "\n"))
	}
	if table := perform(t, nil, "lint", "-c", path); !strings.Contains(table.out,
		"checked: 8 sql jobs, not checked: 1 other job\n") || table.code != 1 || table.err != "" {
		t.Errorf("got %+v, want what was not checked", table)
	}
	sound := lintedConfig[:strings.Index(lintedConfig, "  - {name: writer")]
	if err := os.WriteFile(path, []byte(sound), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := perform(t, nil, "lint", "-c", path); got.code != 0 {
		t.Errorf("a sound configuration: %+v", got)
	}
	one := sound[:strings.Index(sound, "jobs:")] + `jobs:
  - {name: alone, schedule: "@daily", handler: sql, params: {statement: "SELECT 1"}}
`
	if err := os.WriteFile(path, []byte(one), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := perform(t, nil, "lint", "-c", path); !strings.Contains(got.out,
		"checked: 1 sql job, not checked: 0 other jobs\n") {
		t.Errorf("one job: %+v", got)
	}
}

// TestLintOfAWrongName has jobs that write a table which no other job uses. The table is reported
// only if the job locks a table that its statements do not name.
func TestLintOfAWrongName(t *testing.T) {
	const found = "clean public/orders_clean write - " +
		"add it to tables; no statement names public/order_clean, which the job locks"
	for tables, want := range map[string]string{
		"":                                   "",
		"tables: [order_clean], ":            found,
		"tables: [orders_clean], ":           "",
		"tables: [raw], ":                    "", // a statement reads it
		"tables: [\"public.*\"], ":           "",
		"read_tables: [order_clean], ":       "",
		"resources: [{name: order_clean}], ": "",
	} {
		path := filepath.Join(t.TempDir(), "holdfast.yaml")
		text := "database: {url: \"postgres://nobody@127.0.0.1:1/none\"}\njobs:\n" +
			"  - {name: clean, handler: sql, " + tables +
			"params: {statement: INSERT INTO orders_clean SELECT * FROM raw}}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := perform(t, nil, "lint", "-c", path)
		line := strings.Join(strings.Fields(strings.Split(got.out, "\n")[1]), " ")
		if want == "" && got.code != 0 || want != "" && (got.code != 1 || line != want) {
			t.Errorf("%q: got %+v, want %q", tables, got, want)
		}
	}
}

// TestLintOfExamples checks that the configurations that people copy lock their tables.
func TestLintOfExamples(t *testing.T) {
	paths, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("found %q, %v", paths, err)
	}
	for _, path := range paths {
		if got := perform(t, nil, "lint", "-c", path); got.code != 0 {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}
