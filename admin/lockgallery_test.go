package admin

import "net/http"

// lockGallery has the states of the pages of locks.
func lockGallery() []galleryState {
	return []galleryState{
		{name: "locks", options: acted(contention()), path: "/locks", has: []string{
			"public/orders keeps three runs waiting, the oldest for 40 min, held by rollup-sales " +
				"on replica-1 for 42 min.",
			"vendor-api", "1 of 5 slots", "Release by force",
			"held by job prune-orders on replica-2",
		}},
		{name: "locks-calm", options: calm(), path: "/locks", has: []string{"One lock is held, nobody waits."}},
		{name: "locks-empty", options: empty(), path: "/locks", has: []string{"No job has named a table yet."}},
		{name: "locks-one", options: one(), path: "/locks", has: []string{"Nothing is held.", "orders"}},
		{name: "locks-fifty", options: fifty(), path: "/locks", has: []string{"more resources are waited for", "and 32 younger"}},
		{name: "locks-ten-thousand", options: tenThousandLocks(), path: "/locks", has: []string{"10000", `rel="next"`, "more resources beneath"}},
		{name: "locks-layers", options: layers(), path: "/locks", has: []string{"covered", "run out"}},
		{name: "locks-hostile", options: hostile(), path: "/locks", has: []string{"&lt;script&gt;", "Memcached could not be asked"}},
		{name: "locks-none", options: contention(), path: "/locks?text=nothing", has: []string{"No resource is like this."}},
		{name: "locks-filtered", options: contention(), path: "/locks?text=prune&state=waiting", has: []string{`value="prune"`, "everything</a>"}},
		{name: "locks-down", options: down(), path: "/locks", status: http.StatusServiceUnavailable, has: []string{"does not answer", "has not seen this page"}},
		{name: "timeline", options: night(), path: "/locks/timeline", has: []string{
			`class="bar wait"`, `class="bar mark skipped"`, `class="restart"`, "public/orders",
			"10.0.3.9:11211", "rollup-hourly skipped 2026-03-14 02:35:15 UTC: public/orders is " +
				"held by job rollup-sales on replica-1",
		}},
		{name: "timeline-day", options: night(), path: "/locks/timeline?span=24h", has: []string{"too short to be told apart", `class="bar failed several"`}},
		{name: "timeline-table", options: night(), path: "/locks/timeline?resource=public%2Forders&from=2026-03-14T02:00&until=2026-03-14T02:40", has: []string{"and what is above or beneath it"}},
		{name: "timeline-crowd", options: crowd(), path: "/locks/timeline", has: []string{"lie over each other", "runs are too short to be told apart"}},
		{name: "timeline-busy-day", options: crowd(), path: "/locks/timeline?span=24h", has: []string{"Of tick only the youngest 5960 runs are drawn, since 2026-03-14 01:32:55 UTC: zoom in"}},
		{name: "timeline-empty", options: empty(), path: "/locks/timeline", has: []string{"No job has named a table yet."}},
		{name: "timeline-one", options: one(), path: "/locks/timeline", has: []string{"nothing ran or waited"}},
		{name: "timeline-unknown", options: night(), path: "/locks/timeline?resource=nothing", has: []string{"No job names this resource"}},
		{name: "timeline-ten-thousand", options: tenThousandLocks(), path: "/locks/timeline", has: []string{"16 of 10000 resources are drawn", `rel="next"`}},
		{name: "timeline-hostile", options: hostile(), path: "/locks/timeline", has: []string{"&lt;script&gt;"}},
		{name: "timeline-down", options: down(), path: "/locks/timeline", status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("timeline-stale", night(), "/locks/timeline", `class="bar wait"`),
		{name: "contention-matrix", options: night(), path: "/locks/contention", has: []string{
			"of it: rollup-sales.", "its own earlier run", "8 in vain", "waits now",
			`class="heat4"`, "a program",
		}},
		{name: "contention-hour", options: night(), path: "/locks/contention?from=2026-03-14T02:00&until=2026-03-14T02:30", has: []string{"Runs waited for others"}},
		{name: "contention-empty", options: calm(), path: "/locks/contention", has: []string{"No run waited for another"}},
		{name: "contention-many", options: manyWaits(), path: "/locks/contention", has: []string{"only the youngest 100000 waits", "others", "more, in the JSON"}},
		{name: "contention-down", options: down(), path: "/locks/contention", status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("contention-stale", night(), "/locks/contention", "8 in vain"),
		{name: "forecast", options: night(), path: "/locks/forecast", has: []string{"firings are likely to find another in their way", "prune-orders", "likely"}},
		{name: "forecast-table", options: night(), path: "/locks/forecast?resource=public%2Forders", has: []string{"All resources"}},
		{name: "forecast-empty", options: empty(), path: "/locks/forecast", has: []string{"No two jobs of the cron table want the same"}},
		{name: "forecast-ten-thousand", options: rush(), path: "/locks/forecast", has: []string{"It ends early", "50000 scheduled times come until", "more, in the JSON"}},
		{name: "forecast-down", options: down(), path: "/locks/forecast", status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("forecast-stale", night(), "/locks/forecast", "likely"),
		staleState("locks-stale", contention(), "/locks", "1 of 5 slots"),
	}
}
