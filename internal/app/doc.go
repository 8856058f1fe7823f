// Package app assembles a replica from its configuration: store, advisory locks, scheduler,
// webhooks and admin page. It also builds the parts that the command line needs without a replica.
//
// # Open
//
// [Replica.Open] makes the parts in this order. Each step uses the parts above it. Parts in
// brackets exist only if they are configured.
//
//	openStore      store, and the metrics that measure its calls    storage.go
//	openDatabases  [other databases of jobs], checked once          databases.go
//	openLocks      [lock backend], check of its servers, [locker]   locks.go
//	openTracing    [tracing]                                        tracing.go
//	openScheduler  actions of operators, scheduler, metric sources  scheduler.go
//	openSender     webhook sender                                   webhooks.go
//	openPage       [page], listens on its address                   page.go
//	openMounts     [pages in servers of the program]                mount.go
//
// If a step fails, Open closes all parts and forgets them, so that it can be called again. Nothing
// fires before Run.
//
// # Run
//
// [Replica.Run] runs the parts at the same time. They stop in this order:
//
//	ctx ends, or the page fails
//	  └─> scheduler starts no more runs, waits for shutdown_grace, cancels the rest,
//	      releases its locks, ends its session
//	        └─> webhook sender, page, watch of memcached, record of restarts stop
//	              └─> close: last spans are sent, connections and store are closed
//
// The page and the webhook sender stop after the scheduler, so that operators can see the last
// runs, and webhooks get their events.
//
// # Reload
//
// [Replica.Reload] replaces the configuration and applies jobs, access to the page, and the level
// of the log. Other parts keep the values that they got from Open.
package app
