package cli

import (
	"bytes"
	"testing"
)

// TestCountsOfOne checks the words of commands after the number one.
func TestCountsOfOne(t *testing.T) {
	const deleted = "deleted 1 run, 1 audit entry, 1 pause and 1 definition"
	if got := (prunedRows{1, 1, 1, 1}).text(); got != deleted {
		t.Errorf("got %q, want %q", got, deleted)
	}
	for rest, want := range map[int]string{1: "and 1 more waiting run\n",
		2: "and 2 more waiting runs\n"} {
		var out bytes.Buffer
		c := &commandLine{out: &out}
		list := statusList{one: "waiting run", many: "waiting runs", header: "JOB", most: 1}
		for range 1 + rest {
			list.rows = append(list.rows, []string{"load"})
		}
		if err := c.printList(list); err != nil || !bytes.HasSuffix(out.Bytes(), []byte(want)) {
			t.Errorf("got %q (%v), want %q at its end", out.String(), err, want)
		}
	}
}
