// Package metrics counts what a replica does, for Prometheus.
//
// A Metrics has a registry of its own, so that several replicas of one process, as in the demo, do
// not collide. A scheduler reports each event (Observe), and a Locker reports the fate of its
// advisory locks (Lock). Calls of the store and of memcached pass through the Metrics (Store,
// Backend). A scrape reads the current states from memory, without a request to a server (Watch).
//
// docs/metrics.md lists every family, and a test compares it with this package. Labels are jobs,
// resources, servers and words from short lists: never runs, params, users or texts. The first jobs
// and the first resources, as many as Options.Names, have series of their own. All others share the
// series "other".
package metrics
