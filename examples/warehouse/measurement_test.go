package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
)

// telling returns a measurement that shows the expected effects.
func telling() measurement {
	right := total{name: "branch_totals", rows: 2, written: sums{5, 70}, single: sums{5, 70}}
	return measurement{
		without: result{
			settled: true, after: counters{deadlocks: 3,
				errors: map[failure]int64{{"holdfast", deadlockDetected}: 3}},
			outcomes: outcomes{{jobs.Failed, "deadlock"}: 3}, totals: []total{right},
		},
		with: result{
			settled: true, after: counters{errors: map[failure]int64{}},
			outcomes: outcomes{{state: jobs.Succeeded}: 9},
			audits:   audits{made: 4}, totals: []total{right},
		},
	}
}

func TestCheck(t *testing.T) {
	if err := telling().check(); err != nil {
		t.Errorf("of a telling measurement: %v", err)
	}
	for _, c := range []struct {
		name   string
		change func(*measurement)
		want   string
	}{
		{"no deadlock without locks", func(m *measurement) { m.without.after.deadlocks = 0 }, "nothing is shown"},
		{"a deadlock with locks", func(m *measurement) { m.with.after.deadlocks = 1 }, "1 deadlocks"},
		{"a serialization failure", func(m *measurement) { m.with.after.errors[failure{"holdfast", serializationFailure}] = 2 }, "2 serialization failures"},
		{"jobs behind the load", func(m *measurement) { m.with.settled = false }, errNotSettled.Error()},
		{"a total unlike the data", func(m *measurement) { m.with.totals[0].differing = 1 }, "branch_totals is not what a single pass gives: 1 of 2 rows differ"},
		{"audits that disagree", func(m *measurement) { m.with.audits.differing = 1 }, "1 of 4 audits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := telling()
			c.change(&m)
			if err := m.check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	m := telling()
	m.without.settled, m.without.totals[0].differing = false, 1
	var out bytes.Buffer
	if err := m.print(&out); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"without locks with locks",
		"deadlocks (pg_stat_database), before 0 0",
		"deadlocks, after 3 0",
		"that ended a replica's transaction 3 0",
		"runs succeeded 0 9",
		"runs failed: deadlock 3 0",
		"totals unlike a single pass 1 of 1 0 of 1",
		errNotSettled.Error(),
		"branch_totals 2 5 5 70 70 1",
		"branch_totals 2 5 5 70 70 none, equal",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, nil)
	if err != nil || o.check(nil) != nil {
		t.Errorf("the defaults %+v are refused: %v", o, err)
	}
	_, err = parseOptions([]string{"-without", "500ms", "-with", "1500ms", "-scale", "0",
		"-clients", "51", "more"}, nil)
	if err == nil {
		t.Fatal("invalid options: got success, want an error")
	}
	for _, want := range []string{"-without", "-with", "-scale", "-clients", `["more"]`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}
