// Package metrics counts what a replica does, for Prometheus.
//
// A Metrics has a registry of its own: replicas of one process, as in the demo,
// never meet, and nothing is registered anywhere else. It learns what happens
// where it happens: a scheduler tells it of each event (Observe), a Locker of
// what befell its entries (Lock), the store and memcached are called by way of
// it (Store, Backend). What is a state rather than an event is asked for when
// somebody scrapes, and asks nobody in turn (Watch).
//
// Every family is in docs/metrics.md; a test holds that to this package. Labels
// are jobs, resources, servers and words from short lists: never runs, params,
// users or texts. Of jobs and of resources the first Names have series of their
// own, and all others share those of "other".
package metrics
