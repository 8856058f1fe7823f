package clustertest

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestCommandsBesideACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("hold", "t", "", "gate: hold") +
		ledgerJob("every", "u", "schedule: {every: 1s}", "") +
		ledgerJob("yearly", "v", `schedule: "0 3 1 7 *"`, "") +
		ledgerJob("follow", "w", "schedule: {after: [yearly]}", "")})
	c.start("a", "b")
	var added storage.Spec
	c.action(c.replicas["a"], &added, "/api/v1/jobs",
		`{"job": `+jobText("added", `, "schedule": {"every": "24h"}`)+`}`)
	c.awaitValue("a replica has the added job",
		`SELECT EXISTS (SELECT FROM holdfast.jobs WHERE name = 'added')`)
	c.triggerTwice()
	held := c.startedRun("hold", 0)
	c.awaitRun("job = 'every' AND state = 'succeeded'")

	c.expectJobs()
	c.expectRuns(held)
	c.expectLocks(held)
	c.expectNext()
	c.expectRefusals()
	c.triggerWithLimits(held)
	c.triggerLater()
	c.triggerAndWait()
	c.open("hold")
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	c.audit()
}

// triggerTwice repeats a trigger with the same key, which returns the same run, and then uses
// another key.
func (c *cluster) triggerTwice() {
	c.t.Helper()
	var first, again storage.Record
	c.commandJSON(&first, "trigger", "hold", "--key", "order-1")
	c.commandJSON(&again, "trigger", "hold", "--key", "order-1")
	if first.ID != again.ID || first.Key != "order-1" || first.Job != "hold" {
		c.t.Errorf("one key gave runs %+v and %+v", first, again)
	}
	if n := askOne[int](c, `SELECT count(*) FROM holdfast.runs WHERE job = 'hold'`); n != 1 {
		c.t.Errorf("one key gave %d runs", n)
	}
	s := c.command("trigger", "every", "--key", "order-1")
	if s.code != 0 || !strings.Contains(s.out, "order-1") ||
		strings.Contains(s.out, first.ID.String()) {
		c.t.Errorf("the key of another job: %+v", s)
	}
	c.awaitRun("job = 'every' AND key = 'order-1' AND state = 'succeeded'")
}

// triggerAndWait waits for runs, whose outcomes are exit codes, and prints their output.
func (c *cluster) triggerAndWait() {
	c.t.Helper()
	var run storage.Record
	c.commandJSON(&run, "trigger", "every", "--wait")
	if run.State != jobs.Succeeded || run.FinishedAt == nil {
		c.t.Errorf("an awaited run: %+v", run)
	}
	note := "scheduler: run " + run.ID.String() + " has no stored output\n"
	if s := c.command("logs", "-f", run.ID.String()); s.code != 0 || s.err != note {
		c.t.Errorf("the output of a run that has ended: %+v, want the note %q", s, note)
	}
	skipped := c.command("trigger", "hold", "--wait", "--wait-for", "1s")
	if skipped.code != 3 || !strings.Contains(skipped.out, "skipped") || skipped.err != "" {
		c.t.Errorf("an awaited run that is skipped: %+v, want exit code 3", skipped)
	}
}

// triggerLater triggers a job for a later time, and cancels the run.
func (c *cluster) triggerLater() {
	c.t.Helper()
	var later, cancelled storage.Triggered
	c.commandJSON(&later, "trigger", "yearly", "--delay", "1h", "--key", "later")
	if !later.Created || !later.ScheduledAt.Equal(later.CreatedAt.Add(time.Hour)) {
		c.t.Errorf("a trigger for a later time: %+v", later)
	}
	again := c.command("trigger", "yearly", "--delay", "1h", "--key", "later")
	if want := "start at " + later.ScheduledAt.Format("2006-01-02 15:04:05Z"); again.code != 0 ||
		!strings.Contains(again.out, want) {
		c.t.Errorf("the key again: %+v, want %q", again, want)
	}
	for _, other := range [][]string{{"--at", "2100-01-01T00:00:00Z"}, {"--delay", "2h"}, {}} {
		s := c.command(append([]string{"trigger", "yearly", "--key", "later"}, other...)...)
		if s.code != 1 || !strings.Contains(s.err, "with other params or for another time") {
			c.t.Errorf("the key with %q: %+v", other, s)
		}
	}
	c.commandJSON(&cancelled, "cancel", later.ID.String())
	if cancelled.State != jobs.Cancelled {
		c.t.Errorf("a cancelled run for a later time: %+v", cancelled)
	}
}

// triggerWithLimits triggers a job that is already running, with no wait and with a short wait.
func (c *cluster) triggerWithLimits(held run) {
	c.t.Helper()
	const runs = `SELECT count(*) FROM holdfast.runs WHERE job = 'hold'`
	before := askOne[int](c, runs)
	s := c.command("trigger", "hold", "--key", "now", "--wait-for", "0")
	want := "job hold cannot run now (overlap): job:hold is held by job hold (run " + held.ID + ")"
	if line := s.line(c.t); s.code != 1 || s.out != "" || !strings.Contains(line, want) {
		c.t.Errorf("a trigger that is not to wait: %+v, want exit code 1 and %q", s, want)
	}
	status, answer := c.post(c.replicas["a"], "/api/v1/jobs/hold/trigger", `{"wait": "0"}`)
	var refused struct {
		WaitsFor *storage.RunBlocker `json:"waits_for"`
	}
	c.decode(answer, &refused)
	if o := refused.WaitsFor; status != http.StatusConflict || o == nil ||
		o.Reason != reasons.Overlap || o.Holder.Run != held.ID {
		c.t.Errorf("a trigger by the API that is not to wait: %d %s", status, answer)
	}
	if after := askOne[int](c, runs); after != before {
		c.t.Errorf("got %d runs of refused actions, want none", after-before)
	}

	var limited, again storage.Triggered
	c.commandJSON(&limited, "trigger", "hold", "--key", "now", "--wait-for", "1s")
	if !limited.Created || limited.WaitsFor == nil || limited.WaitsFor.Holder.Run != held.ID {
		c.t.Errorf("a trigger that may wait for a second: %+v", limited)
	}
	// If no replica adopted the run within its second, its wait ended before it met the other run.
	c.awaitValue("the run gives up",
		`SELECT state = 'skipped' AND reason IN ('overlap', 'deadline') FROM holdfast.runs WHERE id = $1`, limited.ID)
	c.action(c.replicas["b"], &again, "/api/v1/jobs/hold/trigger", `{"wait": "10m"}`,
		"Idempotency-Key", "now")
	if !again.Created || again.ID == limited.ID || again.StartBy == nil {
		c.t.Errorf("the key of a skipped run: %+v, want a run other than %s", again, limited.ID)
	}
	if s := c.command("cancel", again.ID.String()); s.code != 0 {
		c.t.Errorf("cancel of the run that waits: %+v", s)
	}
}

func (c *cluster) expectJobs() {
	c.t.Helper()
	var list []admin.Job
	c.commandJSON(&list, "jobs")
	named := map[string]admin.Job{}
	for _, job := range list {
		named[job.Name] = job
		if (job.NextScheduledAt == nil) != (job.Name == "hold") {
			c.t.Errorf("next scheduled time of job %s: %v", job.Name, job.NextScheduledAt)
		}
	}
	hold, yearly, follow := named["hold"], named["yearly"], named["follow"]
	if names := slices.Sorted(maps.Keys(named)); len(list) != len(names) ||
		!slices.Equal(names, []string{"added", "every", "follow", "hold", "yearly"}) ||
		named["every"].LastRun == nil ||
		len(hold.Resources) != 1 || hold.Resources[0].Resource != "public/t" ||
		!reflect.DeepEqual(follow.NextScheduledAt, yearly.NextScheduledAt) {
		c.t.Errorf("jobs: %+v", list)
	}
	c.expectTable(c.command("jobs"), "JOB SCHEDULE RESOURCES NEXT SCHEDULED LAST RUN",
		"added", "every", "follow", "hold", "yearly")
}

func (c *cluster) expectRuns(held run) {
	c.t.Helper()
	var list []storage.Record
	c.commandJSON(&list, "runs", "--job", "hold", "--state", "running")
	if len(list) != 1 || list[0].ID.String() != held.ID || list[0].Replica != held.Replica ||
		int64(list[0].Token) != held.Token {
		c.t.Errorf("runs: %+v, want %+v", list, held)
	}
	const note = "scheduler: note: no replica has the name \"nobody\" now\n"
	if s := c.command("runs", "--replica", "nobody", "-o", "json"); s.code != 0 ||
		strings.TrimSpace(s.out) != "[]" || s.err != note {
		c.t.Errorf("runs of an unknown replica: %+v, want none, and a note", s)
	}
	c.commandJSON(&list, "runs", "-n", "1")
	if len(list) != 1 {
		c.t.Errorf("one run: %+v", list)
	}
	c.expectTable(c.command("runs", "-n", "1000"), "RUN JOB SCHEDULED STATE TOOK WHY", held.ID,
		"every")
}

func (c *cluster) expectLocks(held run) {
	c.t.Helper()
	c.await("the lock of the held run, and its advisory lock",
		func(context.Context) (bool, error) {
			var list []admin.Lock
			c.commandJSON(&list, "locks")
			for _, lock := range list {
				if lock.Resource == "public/t" {
					return lock.Holder.Run == held.ID && lock.Advisory == admin.AdvisoryHeld &&
						int64(lock.Token) == held.Token, nil
				}
			}
			return false, nil
		})
	c.expectTable(c.command("locks", "-o", "wide"),
		"RESOURCE MODE JOB REPLICA RUN TOKEN SINCE EXPIRES ADVISORY LOCK", "public/t", held.ID)
}

func (c *cluster) expectNext() {
	c.t.Helper()
	var scheduledTimes []string
	c.commandJSON(&scheduledTimes, "next", "--schedule", "30 2 * * *", "--timezone",
		"Europe/Berlin", "--from", "2026-03-27T12:00:00Z", "-n", "4")
	if want := "2026-03-28T02:30:00+01:00"; len(scheduledTimes) == 0 || scheduledTimes[0] != want {
		c.t.Errorf("next: %q, want %s first", scheduledTimes, want)
	}
	var firings []struct {
		Job         string
		ScheduledAt time.Time `json:"scheduled_at"`
	}
	c.commandJSON(&firings, "next", "-n", "3", "--from", "2026-01-01T00:00:00Z")
	for i, f := range firings {
		if want := time.Date(2026, 1, 1, 0, 0, i+1, 0, time.UTC); f.Job != "every" ||
			!f.ScheduledAt.Equal(want) {
			c.t.Errorf("next firing %d: %+v, want every at %s", i, f, want)
		}
	}
	if len(firings) != 3 {
		c.t.Errorf("next: %d firings, want 3", len(firings))
	}
}

// expectTable fails the test unless a command printed a table with the header and the texts.
func (c *cluster) expectTable(s commandResult, header string, texts ...string) {
	c.t.Helper()
	first, _, _ := strings.Cut(s.out, "\n")
	if s.code != 0 || s.err != "" || strings.Join(strings.Fields(first), " ") != header {
		c.t.Errorf("got %+v, want a table %q", s, header)
	}
	for _, text := range texts {
		if !strings.Contains(s.out, text) {
			c.t.Errorf("got %q, want %q in it", s.out, text)
		}
	}
}

// expectRefusals checks commands that must fail: one line on standard error, exit code 1.
func (c *cluster) expectRefusals() {
	c.t.Helper()
	for _, refused := range []struct {
		args []string
		want string
	}{
		{[]string{"trigger", "nobody"}, `job "nobody": not found in the store`},
		{[]string{"trigger"}, "found no arguments, usage: scheduler trigger JOB"},
		{[]string{"runs", "--state", "asleep"}, `--state: expected one of`},
		{[]string{"runs", "-n", "0"}, "-n: expected 1 to 1000, found 0"},
		{[]string{"next", "nobody"}, `job "nobody": not found in `},
		{[]string{"next", "--schedule", "0 0 30 2 *"}, "never fires"},
		{[]string{"jobs", "-o", "xml"}, `expected one of table, wide, json, yaml`},
		{[]string{"fly"}, `unknown command "fly"`},
	} {
		s := c.command(refused.args...)
		if line := s.line(c.t); s.code != 1 || s.out != "" ||
			!strings.HasPrefix(line, "scheduler: ") || !strings.Contains(line, refused.want) {
			c.t.Errorf("%q: %+v, want exit code 1 and %q", refused.args, s, refused.want)
		}
	}
}

const broken = `database: {url: sqlite://x.db}
wrokers: 3
session: {heartbeat: 5s, expires: 6s}
jobs:
  - name: never
    schedule: "0 0 30 2 *"
    handler: sql
    params: {statement: SELECT 1}
  - name: never
    schedule: "@every 1s"
    handler: nosuch
    timezone: Mars/Olympus
  - name: typo
    handler: http
    params: {ulr: "http://127.0.0.1/"}
`

func TestValidate(t *testing.T) {
	preparedServer(t)
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "broken.yaml"), broken)
	s := call(t.Context(), t, dir, "validate", "-c", "broken.yaml")
	if s.code != 1 || s.out != "" {
		t.Errorf("exit code %d, output %q, want 1 and none", s.code, s.out)
	}
	for _, position := range []string{`2:1: wrokers`, `3:\d+: session.expires`,
		`6:\d+: jobs\[0\].schedule`, `9:\d+: jobs\[1\].name`, `11:\d+: jobs\[1\].handler`,
		`12:\d+: jobs\[1\].timezone`, `15:\d+: jobs\[2\].params.ulr`} {
		if !regexp.MustCompile(`(?m)broken\.yaml:` + position).MatchString(s.err) {
			t.Errorf("want a mistake at %s in:\n%s", position, s.err)
		}
	}
	sound, err := filepath.Abs(filepath.Join("..", "..", "..", "configs", "embedded.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if s := call(t.Context(), t, dir, "validate", "-c", sound); s.code != 0 || s.err != "" ||
		!strings.Contains(s.out, "is valid: 6 jobs") {
		t.Errorf("embedded.yaml: %+v", s)
	}
}

func TestVersion(t *testing.T) {
	preparedServer(t)
	t.Parallel()
	if s := call(t.Context(), t, t.TempDir(), "version"); s.code != 0 || s.err != "" ||
		!strings.HasPrefix(s.out, "holdfast ") {
		t.Errorf("version: %+v", s)
	}
}

func TestMigrate(t *testing.T) {
	url := preparedServer(t).Database(t)
	t.Parallel()
	c := newCluster(t, settings{url: url, stock: true})
	var first, again struct{ Cluster string }
	s := c.command("migrate", "-o", "json")
	migrations := askOne[int](c, `SELECT version FROM holdfast.meta`)
	if lines := strings.Count(s.err, "\n"); s.code != 0 || lines != migrations ||
		strings.Count(s.err, "schema migrated") != lines {
		t.Errorf("migrate: %+v, want a line for each of %d migrations", s, migrations)
	}
	c.decode(s.out, &first)
	c.commandJSON(&again, "migrate")
	if first != again || first.Cluster != askOne[string](c,
		`SELECT cluster::text FROM holdfast.meta`) {
		t.Errorf("cluster %q, and then %q", first, again)
	}
	// The migration must keep the rows that a running replica has written.
	c.settings.jobs = "  - {name: insert, schedule: {every: 1s}, handler: sql, params: " +
		"{statement: SELECT 1}}\n"
	c.start("a")
	c.awaitRun("job = 'insert' AND state = 'succeeded'")
	before := c.ended()
	c.commandJSON(&again, "migrate")
	c.expectKept(before)
	if again != first {
		t.Errorf("cluster %q, and then %q", first, again)
	}
}
