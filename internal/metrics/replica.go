package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// Sources return the state of the replica at a scrape. They are called concurrently,
// and must not send requests.
type Sources struct {
	Stats   func() engine.Stats
	Servers func() []memcached.Health // nil without memcached
	// Databases returns the databases of jobs by name: whether jobs can use them. nil without them.
	Databases func() map[string]bool
	Spans     func() (sent, failed, unsent int64) // nil without tracing
	Status    func() map[string]bool              // by severity: whether it is the current one
}

// Watch registers the sources for each scrape. It is called once, before the first.
func (m *Metrics) Watch(s Sources) {
	w := &watched{sources: s}
	w.describe(&m.book)
	m.registry.MustRegister(w)
}

// watched collects the state at a scrape.
type watched struct {
	sources Sources
	all     []state

	workers, busy, running, waiting, queued, parked              state
	ready, session, opened, lost, table, offset, tables, servers state
	dropped, unsealed                                            state
	up, restarts, outages, flushes, evictions, full, refused     state
	spans, status, databases                                     state
}

func (w *watched) describe(b *book) {
	add := func(into *state, kind Kind, name, help string, labels ...string) {
		*into = b.state(kind, name, help, labels...)
		w.all = append(w.all, *into)
	}
	add(&w.workers, Gauge, "holdfast_workers",
		"Maximum number of runs that this replica executes at the same time.")
	add(&w.busy, Gauge, "holdfast_workers_busy",
		"Workers of this replica that are busy, or reserved for starting runs of quick jobs.")
	add(&w.running, Gauge, "holdfast_runs_running",
		"Attempts that run on this replica now, each with a claim in the store.")
	add(&w.waiting, Gauge, "holdfast_runs_waiting", "Runs that this replica handles but that do "+
		"not run now: queued after adoption, waiting for a lock or an earlier run, starting or "+
		"ending.")
	add(&w.queued, Gauge, "holdfast_firings_queued",
		"Firings that wait for a worker of this replica.")
	add(&w.parked, Gauge, "holdfast_firings_limited", "Firings that wait because their group, or "+
		"the limit of late runs, is full on this replica.")
	add(&w.ready, Gauge, "holdfast_ready", "1 while this replica can start runs.")
	add(&w.session, Gauge, "holdfast_session",
		"1 while this replica has a confirmed session in the store.")
	add(&w.opened, Counter, "holdfast_sessions_opened_total", "Sessions that this replica opened.")
	add(&w.lost, Counter, "holdfast_sessions_lost_total", "Sessions of this replica that were "+
		"lost together with their runs: not confirmed in time, or ended by another replica.")
	add(&w.table, Gauge, "holdfast_jobs", "Jobs in the cron table of this replica.")
	add(&w.offset, Gauge, "holdfast_clock_offset_seconds", "How far the clock of the store is "+
		"ahead of the clock of this machine, as last measured. Absent before the first "+
		"measurement.")
	add(&w.tables, Gauge, "holdfast_cron_tables", "Number of different cron tables in the "+
		"configurations of live replicas. More than 1 is drift; 0 means not read yet.")
	add(&w.servers, Gauge, "holdfast_lock_server_lists", "Number of different lists of memcached "+
		"servers among live replicas. If it is more than 1, replicas do not see each other's "+
		"advisory locks.")
	add(&w.dropped, Counter, "holdfast_listener_events_dropped_total",
		"Events that were dropped because a listener of the program was too slow.")
	add(&w.unsealed, Gauge, "holdfast_audit_unsealed_age_seconds", "How long the oldest entry of "+
		"the audit log has waited for its link. Absent if this replica has no audit.chain.")
	add(&w.up, Gauge, "holdfast_memcached_up",
		"1 while the server answers. Absent before the first check.", "server")
	add(&w.restarts, Counter, "holdfast_memcached_restarts_total", "Observed restarts of the "+
		"server. Its advisory locks are missing until their holders renew them.", "server")
	add(&w.outages, Counter, "holdfast_memcached_outages_total",
		"Times that the server stopped answering.", "server")
	add(&w.flushes, Counter, "holdfast_memcached_flushes_total",
		"Observed flushes of the server, without those that it refused.", "server")
	add(&w.evictions, Counter, "holdfast_memcached_evictions_total", "Items that the server "+
		"dropped before they expired, to make room or while it moved memory.", "server")
	add(&w.full, Counter, "holdfast_memcached_out_of_memory_total",
		"Items that the server refused because it was full.", "server")
	add(&w.refused, Counter, "holdfast_memcached_refused_connections_total",
		"Connections that the server refused or delayed.", "server")
	add(&w.databases, Gauge, "holdfast_database_up", "1 while jobs can use this database of the "+
		"section databases. Each replica checks it every 5 s.", "database")
	add(&w.status, Gauge, "holdfast_status", "1 for the current severity of the cluster's status, "+
		"0 for the others: red, amber or neutral. A replica checks it every 15 s while its "+
		"metrics are read, and stops 5 minutes after the last scrape. The first scrape then waits "+
		"for a check for up to a second. It is absent if the check takes longer.", "severity")
	add(&w.spans, Counter, "holdfast_trace_spans_total", "Spans by result: sent, failed, or "+
		"dropped because the queue was full. Absent without tracing.", "result")
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range w.all {
		ch <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (w *watched) Collect(ch chan<- prometheus.Metric) {
	f := w.sources.Stats()
	for _, m := range []prometheus.Metric{
		w.workers.of(float64(f.Workers)), w.busy.of(float64(f.Busy)),
		w.running.of(float64(f.Running)), w.waiting.of(float64(f.Waiting)),
		w.queued.of(float64(f.Queued)), w.parked.of(float64(f.Parked)), w.ready.holds(f.Ready),
		w.session.holds(f.Session),
		w.opened.of(float64(f.SessionsOpened)), w.lost.of(float64(f.SessionsLost)),
		w.table.of(float64(f.Jobs)),
		w.tables.of(float64(f.CronTables)), w.servers.of(float64(f.ServerLists)),
		w.dropped.of(float64(f.Dropped)),
	} {
		ch <- m
	}
	if f.ClockKnown {
		ch <- w.offset.of(f.ClockOffset.Seconds())
	}
	if f.SealsAudit {
		ch <- w.unsealed.of(f.UnsealedAge.Seconds())
	}
	if w.sources.Servers != nil {
		for _, h := range w.sources.Servers() {
			w.collectServer(ch, h)
		}
	}
	if w.sources.Databases != nil {
		for name, up := range w.sources.Databases() {
			ch <- w.databases.holds(up, name)
		}
	}
	if w.sources.Status != nil {
		for severity, current := range w.sources.Status() {
			ch <- w.status.holds(current, severity)
		}
	}
	if w.sources.Spans != nil {
		sent, failed, unsent := w.sources.Spans()
		ch <- w.spans.of(float64(sent), "sent")
		ch <- w.spans.of(float64(failed), "failed")
		ch <- w.spans.of(float64(unsent), "dropped")
	}
}

func (w *watched) collectServer(ch chan<- prometheus.Metric, h memcached.Health) {
	if h.State != memcached.StateUnknown {
		ch <- w.up.holds(h.State != memcached.StateUnreachable, h.Server)
	}
	for _, m := range []prometheus.Metric{
		w.restarts.of(float64(h.Seen.Restarts), h.Server),
		w.outages.of(float64(h.Seen.Outages), h.Server),
		w.flushes.of(float64(h.Seen.Flushes), h.Server),
		w.evictions.of(float64(h.Seen.Evictions+h.Seen.SlabEvictions), h.Server),
		w.full.of(float64(h.Seen.OutOfMemory), h.Server),
		w.refused.of(float64(h.Seen.RefusedConnections), h.Server),
	} {
		ch <- m
	}
}
