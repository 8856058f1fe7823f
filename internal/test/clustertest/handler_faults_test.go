package clustertest

import (
	"strings"
	"testing"
)

func TestPanicEndsOnlyItsRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("burning", "t", "schedule: {every: 1s}",
		"panics: true")})
	c.start("a")
	panicked := c.awaitRun("job = 'burning' AND state = 'failed'")
	c.expect(panicked, "failed", "panic")
	if !strings.Contains(panicked.Error, "handler panicked: the ledger is on fire") ||
		!strings.Contains(panicked.Output, "keepLedger") {
		t.Errorf("error %q, output %q: expected what it panicked with, and the stack",
			panicked.Error, panicked.Output)
	}
	c.expectLine(c.replicas["a"], "run ended", panicked.ID,
		"handler panicked: the ledger is on fire")
	// The replica continues and the table is free.
	c.open("calm")
	next := c.awaitRun("job = 'burning' AND state = 'succeeded'")
	if next.Replica != "a" || next.Token <= panicked.Token {
		t.Errorf("after token %d came token %d on %s", panicked.Token, next.Token, next.Replica)
	}
	c.audit()
}

func TestRunEndsAfterItsTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("slow", "t",
		"schedule: {every: 1s}, timeout: 300ms", "gate: slow")})
	c.start("a")
	slow := c.awaitRun("job = 'slow' AND state = 'timed_out'")
	c.expect(slow, "timed_out", "timeout")
	if want := "the attempt had not ended after 300ms"; !strings.Contains(slow.Detail, want) {
		t.Errorf("detail %q, want %q in it", slow.Detail, want)
	}
	c.expectLine(c.replicas["a"], "run ended", slow.ID, `"state":"timed_out"`)
	c.open("slow")
	c.awaitRun("job = 'slow' AND state = 'succeeded'")
	c.audit()
}

// The replica abandons a handler that ignores its context. The table becomes free, other runs
// start, and the fence refuses later writes of the handler.
func TestHandlerThatIgnoresItsContextIsFenced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("deaf", "t", "timeout: 300ms",
		"gate: deaf, deaf: true, apart: true") +
		ledgerJob("after", "t", "schedule: {every: 1s}", "")})
	c.start("a")
	c.trigger("deaf")
	deaf := c.startedRun("deaf", 0)
	deaf = c.awaitEnd(deaf.ID)
	c.expect(deaf, "timed_out", "timeout")
	const want = "handler ignored the end of its context and was abandoned"
	if !strings.Contains(deaf.Error, want) {
		t.Errorf("error %q, want %q in it", deaf.Error, want)
	}
	c.expectLine(c.replicas["a"], "run ended", deaf.ID, "handler ignored the end of its context")
	c.awaitRun("job = 'after' AND state = 'succeeded' AND token > $1", deaf.Token)
	c.open("deaf")
	if outcome := c.awaitOutcome(deaf.Token); outcome != "superseded" {
		t.Errorf("its last write ended as %q, want it superseded", outcome)
	}
	if after := c.awaitEnd(deaf.ID); after != deaf {
		t.Errorf("its record changed from %+v to %+v", deaf, after)
	}
	c.audit()
}
