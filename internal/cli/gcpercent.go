package cli

import "runtime/debug"

// gcPercent is the GOGC of a replica. Most of its heap, such as the cron table, stays in use, and
// each collection reads all of it. With the default of 100, collections took a fifth to a quarter of
// the processor time of pages with 10,000 jobs. With 200, the memory of a replica with 9,000 jobs
// and many requests grew from 250 to 440 MB.
const gcPercent = 150

// collectLessOften sets gcPercent, unless the environment has GOGC.
func collectLessOften(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
