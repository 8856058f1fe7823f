package clustertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// post sends an action to a replica and returns its response.
func (c *cluster) post(p *replicas.Process, path, body string,
	header ...string) (status int, answer string) {
	c.t.Helper()
	status, answer, err := post(c.ctx, p, path, body, header...)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, answer
}

func post(ctx context.Context, p *replicas.Process, path, body string,
	header ...string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+path,
		strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("X-Holdfast-Action", "1") // the cluster may have no users
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// action posts an action that must succeed and decodes the response into value.
func (c *cluster) action(p *replicas.Process, value any, path, body string, header ...string) {
	c.t.Helper()
	status, answer := c.post(p, path, body, header...)
	if status != http.StatusOK {
		c.t.Fatalf("%s of %s: %d %s", path, p.Name, status, answer)
	}
	c.decode(answer, value)
}

// heard waits until a replica has logged a line with the texts, and returns the time of that line.
func (c *cluster) heard(p *replicas.Process, texts ...string) time.Time {
	c.t.Helper()
	var at time.Time
	c.await(fmt.Sprintf("replica %s says %q", p.Name, texts), func(context.Context) (bool, error) {
		for line := range strings.Lines(p.Log()) {
			if slices.ContainsFunc(texts, func(text string) bool {
				return !strings.Contains(line, text)
			}) {
				continue
			}
			var fields struct{ Time time.Time }
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				return false, err
			}
			at = fields.Time
			return true, nil
		}
		return false, nil
	})
	return at
}

// jobText returns the JSON of a job that operators add.
func jobText(name, more string) string {
	return fmt.Sprintf(
		`{"name": %q, "handler": "ledger", "tables": [%q], "params": {"tables": [%q]}%s}`, name,
		name, name, more)
}

// obeyLimit is the longest time from an action to the reaction of each replica. It is a second
// on an idle machine. TestControlStateIsReadEachSecondAndKept tests the interval of the polls in
// synthetic time; here the machine may be busy with other tests.
const obeyLimit = 4 * time.Second

func TestEveryReplicaObeysActionsSoon(t *testing.T) {
	for _, way := range []string{"heard", "asked for"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			address := preparedServer(t).Clone(t, template)
			if way == "asked for" {
				address = deafened(t, address)
			}
			c := newCluster(t, settings{url: address,
				jobs: ledgerJob("every", "u", "schedule: {every: 1s}", "") +
					ledgerJob("hold", "t", "", "gate: hold")})
			c.start("a", "b", "c")
			if way == "asked for" {
				for _, p := range c.replicas {
					c.awaitLog(p, "listen for operator actions failed, polling instead")
				}
			}
			for _, action := range []struct{ path, body, says string }{
				{"/api/v1/jobs/every/pause", `{}`, `"target":"job every"`},
				{"/api/v1/jobs/every/resume", `{}`, `"message":"resumed"`},
				{"/api/v1/jobs", `{"job": ` + jobText("added", `, "schedule": {"every": "1s"}`) + `}`, `"job":"added"`},
				{"/api/v1/jobs/added/remove", `{}`, "added job removed"},
			} {
				var done any
				c.action(c.replicas["a"], &done, action.path, action.body)
				since := askOne[time.Time](c, `SELECT max(at) FROM holdfast.audit`)
				for _, p := range c.replicas {
					took := c.heard(p, action.says).Sub(since)
					t.Logf("%s on %s: %s", action.path, p.Name, took)
					if took > obeyLimit {
						t.Errorf("%s was obeyed on %s after %s", action.path, p.Name, took)
					}
				}
			}
			c.cancelElsewhere()
			c.audit()
		})
	}
}

func (c *cluster) cancelElsewhere() {
	c.t.Helper()
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	var other *replicas.Process
	for _, p := range c.replicas {
		if p.Name != held.Replica {
			other = p
		}
	}
	var record storage.Record
	c.action(other, &record, "/api/v1/runs/"+held.ID+"/cancel", `{"reason": "it hangs"}`)
	asked := askOne[time.Time](c, `SELECT max(at) FROM holdfast.audit`)
	ended := c.awaitEnd(held.ID)
	c.expect(ended, "cancelled", "cancelled")
	if took := ended.EndedAt.Sub(asked); took > obeyLimit ||
		!strings.Contains(ended.Detail, "anonymous") {
		c.t.Errorf("cancelled after %s: %+v", took, ended)
	}
}

// deafened returns the address of a proxy before the database. No connection through it can LISTEN.
func deafened(t *testing.T, database string) string {
	t.Helper()
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	proxy := servertest.NewProxy(t, address.Host)
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if bytes.Contains(request, []byte("LISTEN \"")) &&
			!bytes.Contains(request, []byte("UNLISTEN")) {
			return servertest.Cut
		}
		return servertest.Pass
	})
	address.Host = proxy.Addr()
	return address.String()
}

// From the reply to a pause on, no replica starts the job, even if it has not received the pause.
func TestPausedJobStartsNothingOnAnyReplica(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("every", "u", "schedule: {every: 1s}", "")})
	c.start("a", "b", "c")
	c.awaitRuns(3, "job = 'every' AND state = 'succeeded'")
	var p storage.Pause
	c.action(c.replicas["b"], &p, "/api/v1/pause", `{"reason": "night"}`)
	replied := askOne[time.Time](c, `SELECT clock_timestamp()`)
	status, answer := c.post(c.replicas["c"], "/api/v1/jobs/every/trigger", `{}`)
	if status != http.StatusConflict || !strings.Contains(answer, "everything is paused") ||
		!strings.Contains(answer, `"night"`) {
		t.Errorf("trigger while paused: %d %s", status, answer)
	}
	var run storage.Record
	c.action(c.replicas["c"], &run, "/api/v1/jobs/every/trigger", `{"even_paused": true}`)
	c.expect(c.awaitEnd(run.ID.String()), "succeeded", "")
	if err := pause(c.ctx, 4*time.Second); err != nil {
		t.Fatal(err)
	}
	// A start that was under way at the time of the request may take effect before the pause. That
	// takes less than two seconds, and no firing of a later scheduled time was under way.
	if n := askOne[int](c, `SELECT count(*) FROM holdfast.runs WHERE key = ''
		AND (scheduled_at > $1 AND started_at IS NOT NULL
			OR started_at > $1 + interval '2 s')`, replied); n != 0 {
		t.Errorf("%d firings were started while everything was paused", n)
	}
	c.action(c.replicas["a"], &p, "/api/v1/resume", `{}`)
	c.awaitRuns(2, "job = 'every' AND state = 'succeeded' AND key = '' AND started_at > $1",
		*p.ResumedAt)
	c.audit()
}

func TestAddedJobOutlivesReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("own", "o", "", "")})
	c.start("a", "b", "c")
	c.addAtOnce()
	c.awaitRuns(3, "job = 'added' AND state = 'succeeded'")
	if err := c.replicas["a"].Stop(c.ctx); err != nil {
		t.Error(err)
	}
	c.start("d")
	c.awaitRun("job = 'added' AND state = 'succeeded' AND replica = 'd'")

	// A change does not affect the run that is under way.
	var spec storage.Spec
	c.action(c.replicas["d"], &spec, "/api/v1/jobs",
		`{"version": 1, "job": {"name": "added", "handler": "ledger", "schedule": {"every": "1s"}, "tables": ["added"], "params": {"tables": ["added"], "gate": "added"}}}`)
	changed := spec.ChangedAt
	// The run waits for the gate.
	held := c.awaitRun("job = 'added' AND state = 'running' AND started_at > $1 AND "+
		"clock_timestamp() - started_at > interval '0.5 s'", changed)
	c.action(c.replicas["b"], &spec, "/api/v1/jobs",
		`{"version": 2, "job": `+jobText("added", "")+`}`)
	status, answer := c.post(c.replicas["c"], "/api/v1/jobs",
		`{"version": 2, "job": `+jobText("added", "")+`}`)
	if status != http.StatusConflict || !strings.Contains(answer, "version 3") {
		t.Errorf("a change of what was changed: %d %s", status, answer)
	}
	var gone any
	c.action(c.replicas["c"], &gone, "/api/v1/jobs/added/remove", `{"version": 3}`)
	c.open("added")
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	for _, name := range []string{"b", "c", "d"} {
		c.heard(c.replicas[name], "added job removed")
	}
	status, answer = c.post(c.replicas["b"], "/api/v1/jobs/added/trigger", ``)
	if status != http.StatusNotFound {
		t.Errorf("a trigger of a removed job: %d %s", status, answer)
	}
	if n := askOne[int](c,
		`SELECT count(*) FROM holdfast.runs WHERE job = 'added' AND state = 'succeeded'`); n < 4 {
		t.Errorf("%d runs of the removed job are left in the history", n)
	}
	if n := askOne[int](c,
		`SELECT count(*) FROM holdfast.runs WHERE job = 'added' AND state IN ('failed', 'lost')`); n != 0 {
		t.Errorf("%d runs of the added job did not end well", n)
	}
	c.audit()
}

// addAtOnce adds one job through three replicas at the same time. Exactly one of them succeeds. A
// replica that could not answer in time, because the machine is busy, is asked again. It may have
// added the job before. Then it reports that the job is there already.
func (c *cluster) addAtOnce() {
	c.t.Helper()
	var mu sync.Mutex
	statuses, unanswered := map[int]int{}, 0
	var adding sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		adding.Go(func() {
			status, answer, tries := 0, "", 0
			for ; tries == 0 || status == http.StatusServiceUnavailable; tries++ {
				status, answer = c.post(c.replicas[name], "/api/v1/jobs",
					`{"job": `+jobText("added", `, "schedule": {"every": "1s"}`)+`}`)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			unanswered += tries - 1
			if status == http.StatusConflict && !strings.Contains(answer, "is there already") {
				c.t.Errorf("the loser got %s", answer)
			}
		})
	}
	adding.Wait()
	added, refused := statuses[http.StatusOK], statuses[http.StatusConflict]
	if added+refused != 3 || added > 1 || added == 0 && unanswered == 0 {
		c.t.Errorf("answers: %v, after %d without an answer in time", statuses, unanswered)
	}
}

func TestTriggersWithParams(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("hold", "t", "overridable: [gate, takes]",
		"gate: hold")})
	c.start("a", "b")
	var first, again storage.Record
	c.action(c.replicas["a"], &first, "/api/v1/jobs/hold/trigger",
		`{"params": {"gate": "", "takes": "1ms"}}`, "Idempotency-Key", "click")
	c.action(c.replicas["b"], &again, "/api/v1/jobs/hold/trigger",
		`{"params": {"takes": "1ms", "gate": ""}}`, "Idempotency-Key", "click")
	if first.ID != again.ID {
		t.Errorf("one key made runs %s and %s", first.ID, again.ID)
	}
	c.expect(c.awaitEnd(first.ID.String()), "succeeded", "") // its params name no gate
	if status, answer := c.post(c.replicas["b"], "/api/v1/jobs/hold/trigger",
		`{"params": {"gate": "x"}}`, "Idempotency-Key",
		"click"); status != http.StatusUnprocessableEntity {
		t.Errorf("a key with other params: %d %s", status, answer)
	}
	// Another actor has keys of its own.
	c.commandJSON(&again, "trigger", "hold", "--params", `{"gate": ""}`, "--key", "click")
	if again.ID == first.ID {
		t.Errorf("the key of another actor gave run %s", first.ID)
	}
	c.expect(c.awaitEnd(again.ID.String()), "succeeded", "")
	before := askOne[int](c, `SELECT count(*) FROM holdfast.runs`)
	status, answer := c.post(c.replicas["a"], "/api/v1/jobs/hold/trigger",
		`{"params": {"gates": 1, "takes": "soon"}}`)
	if status != http.StatusUnprocessableEntity || !strings.Contains(answer, `"gates"`) ||
		!strings.Contains(answer, `"takes"`) {
		t.Errorf("params that the type refuses: %d %s", status, answer)
	}
	for _, refused := range []struct {
		args []string
		want string
	}{
		{[]string{"trigger", "hold", "--params", `{"gates": 1}`}, `params: gates: unknown key "gates"`},
		{[]string{"trigger", "hold", "--params", `{"tables": []}`}, `params: tables: a trigger cannot override "tables", expected one of gate, takes`},
		{[]string{"trigger", "hold", "--params", `1`}, `--params: expected a JSON object`},
		{[]string{"trigger", "hold", "--params", `{}`, "--key", "click"}, `trigger job "hold": key "click" already belongs to a run with other params or for another time`},
	} {
		s := c.command(refused.args...)
		if line := s.line(t); s.code != 1 || !strings.Contains(line, refused.want) {
			t.Errorf("%q: %+v, want %q", refused.args, s, refused.want)
		}
	}
	if after := askOne[int](c, `SELECT count(*) FROM holdfast.runs`); after != before {
		t.Errorf("got %d runs of refused actions, want none", after-before)
	}
	file := filepath.Join(c.dir, "params.json")
	if err := os.WriteFile(file, []byte(`{"gate": ""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.commandJSON(&again, "trigger", "hold", "--params", "@"+file, "--reason", "by hand")
	c.expect(c.awaitEnd(again.ID.String()), "succeeded", "")
	c.audit()
}

func TestDrainedReplicaLeavesRunsToOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("hold", "t", "", "gate: hold") +
		ledgerJob("every", "u", "schedule: {every: 1s}", "")})
	c.start("a", "b")
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	drained, other := c.replicas[held.Replica], c.other(held.Replica)
	var list []struct{ Replica string }
	c.commandJSON(&list, "drain", held.Replica, "--reason", "new disks")
	if len(list) != 1 || list[0].Replica != held.Replica {
		t.Errorf("drained: %+v", list)
	}
	c.awaitLog(drained, "replica drained")
	c.expectNotReady(drained, "it was drained by an operator")
	since := askOne[time.Time](c, `SELECT clock_timestamp()`)
	c.awaitRuns(4, "job = 'every' AND state = 'succeeded' AND scheduled_at > $1", since)
	if n := askOne[int](c,
		`SELECT count(*) FROM holdfast.runs WHERE replica <> $1 AND started_at > $2`, other.Name,
		since); n != 0 {
		t.Errorf("%d runs were started on the drained replica", n)
	}
	c.open("hold")
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	c.commandJSON(&list, "undrain", held.Replica)
	if err := drained.Ready(c.ctx); err != nil {
		t.Error(err)
	}
	if err := other.Stop(c.ctx); err != nil {
		t.Error(err)
	}
	c.awaitRun("job = 'every' AND state = 'succeeded' AND replica = $1 AND started_at > $2",
		drained.Name, since)
	c.audit()
}

// The run whose lock is released goes on but cannot commit. Another run gets the table and the
// advisory lock.
func TestReleaseRemovesALock(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{wait: "{attempts: 1}",
		jobs: ledgerJob("deaf", "t", "", "gate: deaf, deaf: true") +
			ledgerJob("next", "t", "", "")})
	c.start("a", "b")
	c.trigger("deaf")
	held := c.startedRun("deaf", 0)
	status, answer := c.post(c.replicas["a"], "/api/v1/locks/release",
		fmt.Sprintf(`{"resource": "public/t", "token": %d}`, held.Token+1))
	if status != http.StatusConflict || !strings.Contains(answer, held.ID) {
		t.Errorf("release with another token: %d %s", status, answer)
	}
	s := c.command("release", "public/nothing")
	if line := s.line(t); s.code != 1 ||
		!strings.Contains(line, "release public/nothing: it is not locked") {
		t.Errorf("release of what is free: %+v", s)
	}
	s = c.command("release", "public/t", "--reason", "it hangs")
	if s.code != 0 || !strings.Contains(s.out, held.ID) || !strings.Contains(s.out, "deaf") {
		t.Errorf("release: %+v", s)
	}
	c.expect(c.awaitEnd(held.ID), "lost", "released")
	c.trigger("next")
	c.awaitRun("job = 'next' AND state = 'succeeded'")
	c.open("deaf")
	if outcome := c.awaitOutcome(held.Token); outcome != "superseded" {
		t.Errorf("the run whose lock was taken away ended its work as %s", outcome)
	}
	c.audit()
	var lines []storage.Audited
	c.commandJSON(&lines, "audit", "--action", "release")
	if len(lines) != 1 || lines[0].Via != "cli" || lines[0].Reason != "it hangs" ||
		lines[0].Actor == "" {
		t.Errorf("audit: %+v", lines)
	}
}

func TestCommandsOfActions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("own", "o", "", "") +
		ledgerJob("hold", "t", "", "gate: hold")})
	c.start("a")
	file := filepath.Join(c.dir, "job.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("name: added\ngroup: loads\nhandler: ledger\nparams: {tables: [added]}\n")
	var spec storage.Spec
	c.commandJSON(&spec, "add", "-f", file, "--reason", "more")
	if spec.Job != "added" || spec.Version != 1 || spec.ChangedBy == "" {
		t.Errorf("added: %+v", spec)
	}
	c.heard(c.replicas["a"], "job registered")
	c.expectTable(c.command("add", "-f", file, "--replace"), "JOB VERSION CHANGED BY", "added")
	c.expectTable(c.command("pause", "added", "--reason", "night"),
		"PAUSED SINCE BY REASON RESUMED", "job added", "night")
	c.expectTable(c.command("pause", "--group", "loads"), "PAUSED SINCE BY REASON RESUMED",
		"group loads")
	c.expectTable(c.command("pauses"), "PAUSED SINCE BY REASON RESUMED", "job added", "group loads")
	held := c.trigger("hold")
	c.startedRun("hold", 0)
	c.expectTable(c.command("cancel", held), "RUN JOB STATE REPLICA", held)
	c.expect(c.awaitEnd(held), "cancelled", "cancelled")
	wrong := filepath.Join(c.dir, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("name: wrong\nhandler: ledgre\ntabels: [x]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.dir, "own.yaml")
	if err := os.WriteFile(own, []byte("name: own\nhandler: ledger\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		args []string
		want string
	}{
		{[]string{"pause"}, "expected one of: a job, --group GROUP, --all"},
		{[]string{"pause", "own", "--all"}, "expected one of: a job, --group GROUP, --all"},
		{[]string{"pause", "nobody"}, `job "nobody": not found in the store`},
		{[]string{"resume", "own"}, "resume job own: it has no pause of its own"},
		{[]string{"trigger", "added"}, "use --even-paused to run it"},
		{[]string{"cancel", "x"}, `run: expected an id from "scheduler runs", found "x"`},
		{[]string{"cancel", held}, "it has already ended: cancelled"},
		{[]string{"cancel", "01a1fecc-ef57-7d76-aac5-e8f353379cd3"}, "not found; list runs"},
		{[]string{"drain", "nobody"}, `replica "nobody": no live replica has this name`},
		{[]string{"add", "-f", file}, "use --replace to change it"},
		{[]string{"add", "-f", own}, "own: job comes from the configuration file; change it there and deploy"},
		{[]string{"add"}, `required flag(s) "file" not set`},
		{[]string{"remove", "own"}, "job comes from the configuration file"},
		{[]string{"remove", "nobody"}, `remove job "nobody": no added job has this name`},
		{[]string{"audit", "-n", "0"}, "-n: expected 1 to 1000, found 0"},
	} {
		s := c.command(refused.args...)
		if line := s.line(t); s.code != 1 || s.out != "" ||
			!strings.HasPrefix(line, "scheduler: ") || !strings.Contains(line, refused.want) {
			t.Errorf("%q: %+v, want exit code 1 and %q", refused.args, s, refused.want)
		}
	}
	s := c.command("add", "-f", wrong)
	for _, want := range []string{wrong +
		`:2:10: handler: unknown handler "ledgre"; did you mean "ledger"?`,
		wrong + `:3:1: tabels: unknown key; did you mean "tables"?`} {
		if !strings.Contains(s.err, want) {
			t.Errorf("add of a job with mistakes: %q, want %q", s.err, want)
		}
	}
	c.expectTable(c.command("resume", "added"), "PAUSED SINCE BY REASON RESUMED", "job added")
	c.expectTable(c.command("remove", "added"), "REMOVED", "added")
	c.expectTable(c.command("audit", "-o", "wide"),
		"AT WHO VIA PROOF CLIENT REPLICA ACTION TARGET REASON REQUEST", "put_job", "pause",
		"resume", "cancel", "remove_job", "trigger")
	c.audit()
}
