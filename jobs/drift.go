package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// deployGrace is how long after a replica's start replicas may differ without a
// warning: a rolling deploy replaces them one by one, and each begins it anew.
const deployGrace = 2 * time.Minute

// maxDrifted is how many jobs a line of the log names.
const maxDrifted = 20

// drift compares what living replicas should have alike. It belongs to one
// goroutine, but for what count returns.
type drift struct {
	store   History
	replica string
	now     func() time.Time
	log     zerolog.Logger
	servers alike
	table   alike
}

// alike is one thing that replicas should have alike.
type alike struct {
	own func() string // what this replica has; "" is not compared
	of  func(ReplicaView) string
	// what the log says when replicas begin to differ from this one, and when they no longer do
	begun, over string

	number atomic.Int64 // of different ones among the living, as last looked
	told   told
}

// told is what the log has said of a difference that goes on.
type told int

const (
	toldNothing told = iota
	toldDeploy       // that it began, as deploys have it begin
	toldDrift        // that it is there, and that no deploy explains it
)

// newDrift compares lists of stage-1 servers, of which and of whose order it
// depends which server has a lock: replicas whose lists differ do not see each
// other's locks there, and each conflict reaches the store. And it compares cron
// tables: what only some replicas have stops with the last of them.
func newDrift(store History, replica, servers string, table func() string, now func() time.Time,
	log zerolog.Logger) *drift {
	return &drift{
		store: store, replica: replica, now: now, log: log,
		servers: alike{
			own: func() string { return servers }, of: func(r ReplicaView) string {
				return r.LockServers
			},
			begun: "replicas have different lists of lock servers, and don't see each other's " +
				"locks there",
			over: "replicas have the same list of lock servers again",
		},
		table: alike{
			own: table, of: func(r ReplicaView) string { return r.ConfigHash },
			begun: "replicas have different jobs in their configurations",
			over:  "replicas have the same jobs in their configurations again",
		},
	}
}

// compare looks at the sessions, and logs what is no longer alike, or is again.
func (d *drift) compare(ctx context.Context) {
	if d.servers.own() == "" && d.table.own() == "" {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	replicas, err := d.store.Replicas(bounded)
	if err != nil {
		if ctx.Err() == nil {
			d.log.Debug().Err(err).Msg("replicas not compared")
		}
		return
	}
	others, deploy := d.living(replicas)
	for _, a := range []*alike{&d.servers, &d.table} {
		differ := a.compare(others)
		event := a.tell(d.log, len(differ) > 0, deploy)
		if event == nil {
			continue
		}
		if len(differ) == 0 {
			event.Msg(a.over)
			continue
		}
		if a == &d.table {
			event.Strs("jobs", d.jobs(bounded))
		}
		event.Strs("differ_from", differ).Msg(a.begun)
	}
}

// living returns the living sessions but for this replica's own and those of
// its former lives, and whether any of all was opened lately.
func (d *drift) living(replicas []ReplicaView) (others []ReplicaView, deploy bool) {
	now := d.now()
	for _, r := range replicas {
		if r.EndedAt != nil || !now.Before(r.ExpiresAt) {
			continue
		}
		deploy = deploy || now.Sub(r.StartedAt) < deployGrace
		if r.Name != d.replica {
			others = append(others, r)
		}
	}
	return others, deploy
}

// compare counts what there is, and returns the names of those of the others
// that have something else than this replica.
func (a *alike) compare(others []ReplicaView) (differ []string) {
	own := a.own()
	if own == "" {
		return nil
	}
	found := map[string]bool{own: true}
	for _, r := range others {
		its := a.of(r)
		if its == "" { // of a program that schedules nothing, or of an older version
			continue
		}
		found[its] = true
		if its != own && !slices.Contains(differ, r.Name) {
			differ = append(differ, r.Name)
		}
	}
	a.number.Store(int64(len(found)))
	return differ
}

// tell returns the line in which the log is to be told, or nil where it knows.
func (a *alike) tell(log zerolog.Logger, differ, deploy bool) *zerolog.Event {
	before := a.told
	switch {
	case !differ:
		a.told = toldNothing
	case !deploy:
		a.told = toldDrift
	case before == toldNothing:
		a.told = toldDeploy
	}
	switch {
	case a.told == before:
		return nil
	case a.told == toldDrift:
		return log.Warn()
	default:
		return log.Info()
	}
}

// jobs says in words how cron tables differ.
func (d *drift) jobs(ctx context.Context) []string {
	differing, err := d.store.Drift(ctx, maxDrifted+1)
	if err != nil {
		return []string{"which, could not be asked: " + err.Error()}
	}
	var words []string
	for _, job := range differing[:min(len(differing), maxDrifted)] {
		words = append(words, job.String())
	}
	if len(differing) > maxDrifted {
		words = append(words, "and more")
	}
	return words
}

// AddDrift adds a replica to what stores return: to the last job, or to another
// one that follows it.
func AddDrift(found []JobDrift, job, replica string, without, newest bool) []JobDrift {
	if len(found) == 0 || found[len(found)-1].Job != job {
		found = append(found, JobDrift{Job: job})
	}
	last := &found[len(found)-1]
	switch {
	case without:
		last.Without = append(last.Without, replica)
	case newest:
		last.Newest = append(last.Newest, replica)
	default:
		last.Older = append(last.Older, replica)
	}
	return found
}

// String says who has which definition: "rollup: a has an older definition; b
// does not know it".
func (j JobDrift) String() string {
	var parts []string
	if len(j.Older) > 0 {
		parts = append(parts, fmt.Sprintf("%s an older definition",
			withVerb(j.Older, "has", "have")))
	}
	switch {
	case len(j.Without) > 0 && len(j.Older) == 0 && len(j.Newest) == 1:
		parts = append(parts, "only "+j.Newest[0]+" knows it")
	case len(j.Without) > 0:
		parts = append(parts, fmt.Sprintf("%s not know it", withVerb(j.Without, "does", "do")))
	}
	return j.Job + ": " + strings.Join(parts, "; ")
}

// withVerb names replicas with the verb that follows them.
func withVerb(names []string, one, many string) string {
	if len(names) == 1 {
		return names[0] + " " + one
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " " + many
}

// hash identifies the jobs of the configuration, with all that decides what is
// fired and how. Jobs that were added at run time are in the store, for all.
func (t *cronTable) hash() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.config == "" {
		sum := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(t.entries)) {
			if d := t.entries[name].definition; d.Source != FromStore {
				fmt.Fprintf(sum, "%q %s\n", name, d.Hash)
			}
		}
		t.config = hex.EncodeToString(sum.Sum(nil)[:8])
	}
	return t.config
}
