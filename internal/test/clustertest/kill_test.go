package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

const (
	stepLimit = 4 * time.Minute // for the victim's firing to reach its step, on a busy machine
	waitLimit = 2 * time.Minute // for the other job to start; then the test fails
)

// The test kills a replica at each step of a firing between the gate and the release. It measures
// how long another job then waits for the tables. The survivor finds the connection of the dead
// replica closed, and the wait ends soon after its session has expired. It never lasts until the
// end of the lease.
func TestKillAtEachStep(t *testing.T) {
	t.Parallel()
	// A busy machine delays everything by seconds. The lease of the short test is so long that its
	// end cannot be confused with the session's expiry. The long test measures with the default
	// settings.
	kills, limit := soak.Pick(len(killSteps), 200), soak.Pick(time.Minute, 20*time.Second)
	lease := soak.Pick("10m", "30s")
	c := newCluster(t, settings{
		heartbeat: "5s", expires: "15s", lease: lease, jobs: successors(kills),
		limit: 15 * time.Minute,
		wait:  "{attempts: 0, elapsed: 10m, delay: 250ms, backoff: constant}",
	})
	c.start("survivor")
	victims := make([]*victim, kills)
	all, ctx := errgroup.WithContext(c.ctx)
	all.SetLimit(len(killSteps)) // more would starve each other
	for i := range victims {
		v := &victim{
			cluster: c, step: killSteps[i%len(killSteps)], name: fmt.Sprintf("v%03d", i),
			spec: c.spec(""), target: newKillTarget(), killed: make(chan struct{}),
		}
		victims[i] = v
		all.Go(func() error {
			if err := v.measure(ctx); err != nil {
				return fmt.Errorf("%s, %s: %w", v.name, v.step.name, err)
			}
			return nil
		})
	}
	err := all.Wait()
	for _, v := range victims {
		if v.process != nil {
			c.replicas[v.name] = v.process // endReplicas checks its log too
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	alone := strings.Contains(c.replicas["survivor"].Log(), "the store decides alone")
	for _, v := range victims {
		v.check(t, limit, alone)
	}
	logWaits(t, victims)
	c.auditRule(ledgerRules[0]) // these jobs write and end in two transactions
}

// successors returns the jobs that lock the tables of the victims, one for each.
func successors(n int) string {
	var table string
	for i := range n {
		name := fmt.Sprintf("v%03d", i)
		table += ledgerJob("successor-"+name, tablesOf(name), "", "")
	}
	return table
}

func tablesOf(victim string) string { return fmt.Sprintf("%[1]s_a, %[1]s_b, %[1]s_c", victim) }

// victim is a replica that is killed at a step of a firing. It alone knows the firing's job.
type victim struct {
	cluster *cluster
	step    killStep
	name    string
	spec    replicas.Spec
	process *replicas.Process

	target    *killTarget
	once      sync.Once
	killed    chan struct{} // closed after the kill
	killedAt  time.Time
	killError error
	// The replica could not record the end of its run in time, as its log says. It removed the
	// advisory locks nevertheless, so the claim is left behind.
	unrecorded bool

	expires time.Time // when its session expired
	next    run       // the run that locks its tables next
}

func (v *victim) job() string { return "job-" + v.name }

// measure starts the replica and waits until it was killed at its step. Then it waits until a run
// of another job has locked the tables.
func (v *victim) measure(ctx context.Context) (err error) {
	address, err := url.Parse(v.cluster.url)
	if err != nil {
		return err
	}
	store, err := v.proxy(address.Host, v.step.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	locks, err := v.proxy(v.cluster.memcached.Addr(), !v.step.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	address.Host = store.Addr()
	own := *v.cluster
	own.url, own.settings.servers = address.String(), strconv.Quote(locks.Addr())
	own.settings.jobs = ledgerJob(v.job(), tablesOf(v.name), "schedule: {every: 3s}", "apart: true")
	v.spec.Name, v.spec.Config = v.name, own.config()
	process, err := replicas.Start(ctx, v.spec)
	if err != nil {
		return err
	}
	v.process = process
	defer func() { err = errors.Join(err, process.Kill()) }()
	if err := v.die(ctx); err != nil {
		return err
	}
	return v.startSuccessor(ctx)
}

// proxy starts a proxy to a server. If the victim's step is a request to that server, the proxy
// kills the victim at that request.
func (v *victim) proxy(server string, kills bool) (*servertest.Proxy, error) {
	proxy, err := servertest.StartProxy(server)
	if err != nil {
		return nil, err
	}
	proxy.OnReplyCut(v.kill)
	proxy.OnRequest(func(piece []byte) servertest.Fate {
		fate, isStep := v.target.fate(v, piece, kills)
		if isStep && fate == servertest.Drop {
			v.kill()
		}
		return fate
	})
	return proxy, nil
}

func (v *victim) kill() {
	v.once.Do(func() {
		v.killedAt = time.Now()
		v.killError = v.process.Kill()
		close(v.killed)
	})
}

// die kills the victim at the first firing after a delay. So the kills of all victims are spread
// over the interval between two heartbeats.
func (v *victim) die(ctx context.Context) error {
	if err := v.process.Ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := pause(ctx, soak.Pick(0, rand.N(5*time.Second))); err != nil {
		return err
	}
	for {
		if err := v.armWhenIdle(ctx); err != nil {
			return err
		}
		select {
		case <-v.killed:
			return v.killError
		case <-v.target.disarmed:
		case <-ctx.Done():
			return fmt.Errorf("the firing did not reach the step: %w\n%s", context.Cause(ctx),
				v.process.Tail(2000))
		}
	}
}

// armWhenIdle arms the target when the job has run, every firing of it that has begun has ended,
// and its locks are removed. Otherwise the kill could also end a run of the firing before, or the
// next firing could have met the locks of that run: it then starts without advisory locks, because
// the store decides.
func (v *victim) armWhenIdle(ctx context.Context) error {
	const asked = `
SELECT count(*) FROM holdfast.runs
WHERE job = $1 AND scheduled_at = ANY ($2) AND state NOT IN ('waiting', 'running')`
	for {
		begun, ended := v.target.firings(), 0
		if err := v.cluster.db.QueryRow(ctx, asked, v.job(), begun).Scan(&ended); err != nil {
			return err
		}
		if ended > 0 && ended == len(begun) && v.target.arm(ended) {
			return nil
		}
		if err := pause(ctx, pollEvery); err != nil {
			return fmt.Errorf("the job has not run before the kill: %w", err)
		}
	}
}

// startSuccessor triggers the job that wants the victim's tables, and waits until it has started.
func (v *victim) startSuccessor(ctx context.Context) error {
	if err := v.awaitRecord(ctx); err != nil {
		return err
	}
	successor := "successor-" + v.name
	survivor, trigger := v.cluster.replicas["survivor"], "/api/v1/jobs/"+successor+"/trigger"
	// With a key the client may repeat the request: the server may just have closed the connection,
	// because it was idle.
	status, answer, err := post(ctx, survivor, trigger, `{}`, "Idempotency-Key", v.name)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("trigger: %d %s", status, answer)
	}
	const started = selectRuns + "WHERE job = $1 AND started_at IS NOT NULL"
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		found, err := ask[run](ctx, v.cluster, started, successor)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			v.next = found[0]
			const expiry = `SELECT max(expires_at) FROM holdfast.sessions WHERE replica = $1`
			return v.cluster.db.QueryRow(ctx, expiry, v.name).Scan(&v.expires)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("the job that wants its tables has not started within %s: %w",
				waitLimit, err)
		}
	}
}

// awaitRecord waits until the history has the victim's run in the state of the step. A request that
// was partly answered may take effect a moment later. A run that was running may be lost by now.
func (v *victim) awaitRecord(ctx context.Context) error {
	const asked = `
SELECT EXISTS (SELECT FROM holdfast.runs
    WHERE job = $1 AND scheduled_at = $2 AND state IN ('running', 'lost'))`
	at := v.target.time()
	failed := linesWith(v.process.Log(), "record end of run failed")
	v.unrecorded = strings.Contains(failed, at.UTC().Format(time.RFC3339))
	expected := v.step.running || v.unrecorded
	bounded, cancel := context.WithTimeout(ctx, 9*time.Second)
	defer cancel()
	for {
		var running bool
		row := v.cluster.db.QueryRow(bounded, asked, v.job(), at)
		if err := row.Scan(&running); err != nil {
			return err
		}
		if running == expected {
			return nil
		}
		if err := pause(bounded, pollEvery); err != nil {
			return fmt.Errorf("a run is running: %t, expected %t: %w", running, expected, err)
		}
	}
}

// waited returns how long the tables were unavailable after the kill.
func (v *victim) waited() time.Duration { return v.next.StartedAt.Sub(v.killedAt) }

// check fails the test unless the other job waited until the session had expired, and only little
// longer. Alone says that the survivor could not always reach memcached: on a busy machine a
// request may take longer than its time limit. Then the store decides alone, and advisory locks
// without a claim exclude nobody.
func (v *victim) check(t *testing.T, limit time.Duration, alone bool) {
	t.Helper()
	if waited := v.waited(); waited > limit {
		t.Errorf("%s, %s: another job waited for %s, want %s at most",
			v.name, v.step.name, waited, limit)
	}
	excludes := v.step.running || v.unrecorded || !v.step.unlocked && !alone
	if early := v.expires.Sub(v.next.StartedAt); early > 0 && excludes {
		t.Errorf("%s, %s: another job had its tables %s before its session expired\n"+
			"killed at %s, run of the other job %+v\nvictim:\n%s\nsurvivor:\n%s",
			v.name, v.step.name, early, v.killedAt.UTC(), v.next,
			linesWith(v.process.Log(), v.job()),
			linesWith(v.cluster.replicas["survivor"].Log(), "successor-"+v.name))
	}
}

// linesWith returns the lines of a log that contain one of the texts.
func linesWith(log string, texts ...string) string {
	var found strings.Builder
	for line := range strings.Lines(log) {
		if slices.ContainsFunc(texts, func(text string) bool {
			return strings.Contains(line, text)
		}) {
			found.WriteString(line)
		}
	}
	return found.String()
}

// logWaits logs for each step how long other jobs waited.
func logWaits(t *testing.T, victims []*victim) {
	t.Helper()
	for _, step := range killSteps {
		var waits, behind []time.Duration
		for _, v := range victims {
			if v.step.name == step.name {
				waits = append(waits, v.waited())
				behind = append(behind, v.next.StartedAt.Sub(v.expires))
			}
		}
		slices.Sort(waits)
		slices.Sort(behind)
		ms := func(d []time.Duration, i int) time.Duration { return d[i].Round(time.Millisecond) }
		n := len(waits)
		t.Logf(
			"%-31s %3d kills: waited %s, %s, %s (least, median, most), after the expiry %s, %s, %s",
			step.name, n, ms(waits, 0), ms(waits, n/2), ms(waits, n-1),
			ms(behind, 0), ms(behind, n/2), ms(behind, n-1))
	}
}
