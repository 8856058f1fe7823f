package admin

import "net/http"

// lockGallery has the states of the pages of locks.
func lockGallery() []galleryState {
	return []galleryState{
		{name: "locks", options: contention(), path: "/locks", has: []string{
			"public/orders keeps three runs waiting, the oldest for 40 min, held by rollup-sales on replica-1 for 42 min.",
			"vendor-api", "1 of 5 slots", "Release by force", "held by job prune-orders on replica-2",
		}},
		{name: "locks-calm", options: calm(), path: "/locks", has: []string{"One lock is held, nobody waits."}},
		{name: "locks-empty", options: empty(), path: "/locks", has: []string{"No job has named a table yet."}},
		{name: "locks-one", options: one(), path: "/locks", has: []string{"Nothing is held.", "orders"}},
		{name: "locks-fifty", options: fifty(), path: "/locks", has: []string{"more resources are waited for", "and 32 younger"}},
		{name: "locks-ten-thousand", options: manyLocks(), path: "/locks", has: []string{"10000", `rel="next"`, "more resources beneath"}},
		{name: "locks-layers", options: layers(), path: "/locks", has: []string{"covered", "run out"}},
		{name: "locks-hostile", options: hostile(), path: "/locks", has: []string{"&lt;script&gt;", "Stage 1 could not be asked"}},
		{name: "locks-none", options: contention(), path: "/locks?text=nothing", has: []string{"No resource is like this."}},
		{name: "locks-filtered", options: contention(), path: "/locks?text=prune&state=waiting", has: []string{`value="prune"`, "everything</a>"}},
		{name: "locks-down", options: down(), path: "/locks", status: http.StatusServiceUnavailable, has: []string{"does not answer", "has not seen this page"}},
		staleState("locks-stale", contention(), "/locks", "1 of 5 slots"),
	}
}
