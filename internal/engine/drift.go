package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// deployGrace is how long after a replica's start differences between replicas are no warning. A
// rolling deploy replaces replicas one by one, and each start begins this time again.
const deployGrace = 2 * time.Minute

// maxDrifted is the most jobs that one log line names.
const maxDrifted = 20

// sessionList has the open sessions as a heartbeat has read them.
type sessionList struct {
	at      time.Time // by cluster time, before the heartbeat
	session uuid.UUID // that sent the heartbeat
	open    []storage.ReplicaView
}

// drift compares settings that all live replicas should share, after each heartbeat. It belongs to
// the goroutine of run, except for offer and the counters.
type drift struct {
	store   driftReader
	replica string
	now     func() time.Time
	log     zerolog.Logger
	servers setting
	table   setting
	lists   chan sessionList // the last one, until it is compared
	// compared, if set, is called at each comparison with the live sessions and this replica's own.
	compared func(session uuid.UUID, live []storage.ReplicaView)
	// seen, if set, is called with the list before each comparison.
	seen func(list sessionList)
}

// setting is one setting that all replicas should share.
type setting struct {
	own func() string // this replica's value; "" is not compared
	of  func(storage.ReplicaView) string
	// log messages for the begin and the end of a difference
	begun, over string

	number   atomic.Int64 // the number of different values at the last comparison
	reported reported
}

// values returns the number of different values at the last comparison; 0 before the first.
func (s *setting) values() int { return int(s.number.Load()) }

// reported is what was logged about a current difference.
type reported int

const (
	reportedNothing reported = iota
	reportedDeploy           // logged as a consequence of a deploy
	reportedDrift            // logged as a warning: no deploy explains it
)

// serverLists returns the number of different lists of memcached servers.
func (d *drift) serverLists() int { return d.servers.values() }

// cronTables returns the number of different cron tables.
func (d *drift) cronTables() int { return d.table.values() }

// newDrift returns a drift that compares the lists of memcached servers and the cron tables. The
// list and its order decide which server has a lock, so replicas with different lists do not see
// each other's advisory locks. A job that only some replicas know stops with the last of them.
func newDrift(store driftReader, replica, servers string, table func() string,
	now func() time.Time,
	log zerolog.Logger) *drift {
	return &drift{
		store: store, replica: replica, now: now, log: log, lists: make(chan sessionList, 1),
		servers: setting{
			own: func() string { return servers }, of: func(r storage.ReplicaView) string {
				return r.LockServers
			},
			begun: "replicas have different lists of memcached servers",
			over:  "replicas have the same list of memcached servers again",
		},
		table: setting{
			own: table, of: func(r storage.ReplicaView) string { return r.ConfigHash },
			begun: "replicas have different jobs in their configurations",
			over:  "replicas have the same jobs in their configurations again",
		},
	}
}

// offer hands over a list for the next comparison, in place of one that was not compared. It does
// not wait. Calls must not be concurrent.
func (d *drift) offer(list sessionList) {
	select {
	case <-d.lists:
	default:
	}
	d.lists <- list
}

// run compares the offered lists until ctx ends.
func (d *drift) run(ctx context.Context) {
	for {
		select {
		case list := <-d.lists:
			d.compare(ctx, list)
		case <-ctx.Done():
			return
		}
	}
}

// compare logs differences that began or ended.
func (d *drift) compare(ctx context.Context, list sessionList) {
	if d.servers.own() == "" && d.table.own() == "" {
		return
	}
	if d.seen != nil {
		d.seen(list)
	}
	live := d.live(list.open)
	if d.compared != nil {
		d.compared(list.session, live)
	}
	others, deploy := d.others(live)
	for _, a := range []*setting{&d.servers, &d.table} {
		differ := a.compare(others)
		event := a.report(d.log, len(differ) > 0, deploy)
		if event == nil {
			continue
		}
		if len(differ) == 0 {
			event.Msg(a.over)
			continue
		}
		if a == &d.table {
			event.Strs("jobs", d.jobs(ctx))
		}
		event.Strs("differ_from", differ).Msg(a.begun)
	}
}

// live returns the live sessions.
func (d *drift) live(replicas []storage.ReplicaView) (live []storage.ReplicaView) {
	now := d.now()
	for _, r := range replicas {
		if r.LiveAt(now) {
			live = append(live, r)
		}
	}
	return live
}

// others returns the sessions of other replicas, and reports whether any session was opened lately.
func (d *drift) others(live []storage.ReplicaView) (others []storage.ReplicaView, deploy bool) {
	now := d.now()
	for _, r := range live {
		deploy = deploy || now.Sub(r.StartedAt) < deployGrace
		if r.Name != d.replica {
			others = append(others, r)
		}
	}
	return others, deploy
}

// compare counts the different values, and returns the names of the replicas whose value differs
// from this one's.
func (a *setting) compare(others []storage.ReplicaView) (differ []string) {
	own := a.own()
	if own == "" {
		return nil
	}
	found := map[string]bool{own: true}
	for _, r := range others {
		its := a.of(r)
		if its == "" { // a program without jobs, or an older version
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

// report returns the log event for a change of the difference, or nil if it was logged before.
func (a *setting) report(log zerolog.Logger, differ, deploy bool) *zerolog.Event {
	before := a.reported
	switch {
	case !differ:
		a.reported = reportedNothing
	case !deploy:
		a.reported = reportedDrift
	case before == reportedNothing:
		a.reported = reportedDeploy
	}
	switch {
	case a.reported == before:
		return nil
	case a.reported == reportedDrift:
		return log.Warn()
	default:
		return log.Info()
	}
}

// jobs describes how the cron tables differ.
func (d *drift) jobs(ctx context.Context) []string {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	differing, err := d.store.Drift(bounded, maxDrifted+1)
	if err != nil {
		return []string{"unknown: " + err.Error()}
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

// hash identifies the jobs of the configuration, with everything that decides when and how they are
// fired. It does not cover added jobs: they are in the store, and a replica leaves those that it
// cannot fire to others.
func (t *cronTable) hash() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.config == "" {
		sum := sha256.New()
		for _, e := range t.byName() {
			if e.spec == nil {
				fmt.Fprintf(sum, "%q %s\n", e.Name, e.hash)
			}
		}
		t.config = hex.EncodeToString(sum.Sum(nil)[:8])
	}
	return t.config
}
