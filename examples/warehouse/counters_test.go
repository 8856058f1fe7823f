package main

import (
	"maps"
	"strings"
	"testing"
)

func TestCountErrors(t *testing.T) {
	log :=
		`2026-01-31 09:00:00.000 UTC db= app= code=00000 LOG:  database system is ready to accept connections
2026-01-31 09:00:01.000 UTC db=with_locks app=holdfast code=40P01 ERROR:  deadlock detected
2026-01-31 09:00:01.000 UTC db=with_locks app=holdfast code=40P01 DETAIL:  Process 1 waits for ShareLock on transaction 2; blocked by process 3.
	Process 3 waits for ShareLock on transaction 4; blocked by process 1.
2026-01-31 09:00:01.000 UTC db=with_locks app=holdfast code=40P01 STATEMENT:  INSERT INTO totals
	SELECT ' db=with_locks app=x code=40P01'
2026-01-31 09:00:02.000 UTC db=with_locks app=holdfast code=40P01 ERROR:  deadlock detected
2026-01-31 09:00:02.000 UTC db=with_locks app=pgbench code=40P01 ERROR:  deadlock detected
2026-01-31 09:00:03.000 UTC db=with_locks app=holdfast code=40001 ERROR:  could not serialize access scheduled_at to concurrent update
2026-01-31 09:00:04.000 UTC db=without_locks app=holdfast code=40001 ERROR:  could not serialize access scheduled_at to concurrent update
`
	counted, lines, err := countErrors(strings.NewReader(log), "with_locks")
	if err != nil {
		t.Fatal(err)
	}
	want := map[failure]int64{
		{"holdfast", deadlockDetected}:     2,
		{"pgbench", deadlockDetected}:      1,
		{"holdfast", serializationFailure}: 1,
	}
	if !maps.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
	if n := (counters{errors: counted}).of(deadlockDetected); n != 3 {
		t.Errorf("%d deadlocks of all, want 3", n)
	}
	if len(lines) != 4 || !strings.HasSuffix(lines[0], "code=40P01 ERROR:  deadlock detected") {
		t.Errorf("lines of the errors: %q", lines)
	}
}
