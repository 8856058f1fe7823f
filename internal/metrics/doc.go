// Package metrics counts what a replica does, for Prometheus.
//
// A Metrics has a registry of its own, so that several replicas of one process, as in the demo, do
// not collide. A scheduler reports each event (Observe), and a Locker reports the fate of its
// advisory locks (Lock). Calls of the store and of memcached pass through the Metrics (Store,
// Backend). A scrape reads the current states from memory, without a request to a server (Watch).
//
// Every family is in docs/metrics.md; a test holds that to this package. Labels
// are jobs, resources, servers and words from short lists: never runs, params,
// users or texts. Of jobs and of resources the first Names have series of their
// own, and all others share those of "other".
package metrics
