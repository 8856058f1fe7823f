package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// endedRuns adds ended runs of a thousand jobs, as many as its argument says.
const endedRuns = `
WITH added AS (
    INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, batched, session, replica,
        token, created_at, started_at, finished_at)
    SELECT gen_random_uuid(), 'job-' || lpad((n % 1000)::text, 4, '0'),
        t + n * interval '1 microsecond', 1, 'succeeded', true, gen_random_uuid(),
        'replica-' || n % 3, n, t, t, t
    FROM generate_series(1, $1) n, clock_timestamp() t
    RETURNING id
)
INSERT INTO holdfast.outputs SELECT id, 'a line of output' FROM added WHERE $2`

// BenchmarkInsertAndPrune adds 10,000 ended runs a second until there are 100,000. Meanwhile
// another backend deletes them a second after their end. If the machine is too slow, the first
// backend adds fewer runs a second. The metrics are the rates of both, and the processor time of
// both backends for each run.
func BenchmarkInsertAndPrune(b *testing.B) {
	for name, outputs := range map[string]bool{"runs": false, "runs-with-outputs": true} {
		b.Run(name, func(b *testing.B) { benchmarkInsertAndPrune(b, outputs) })
	}
}

func benchmarkInsertAndPrune(b *testing.B, outputs bool) {
	const (
		rate, batch = 10_000, 100
		keep        = time.Second
	)
	url := database(b)
	adding, pruning := openAs(b, url, "adding"), openAs(b, url, "pruning")
	var added, pruned int
	var addTime, pruneTime, adds, late time.Duration
	for b.Loop() {
		beforeAdds, beforePrunes := processorTime(b, adding), processorTime(b, pruning)
		start, end := time.Now(), make(chan time.Duration, 1)
		go func() {
			for n := 0; n < 10*rate; n += batch {
				time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / rate)))
				if _, err := adding.pool.Exec(b.Context(), endedRuns, batch, outputs); err != nil {
					b.Error(err)
					break
				}
			}
			end <- time.Since(start)
		}()
		before := pruned
		var ended time.Duration
		for request := (storage.PruneRequest{Keep: keep, Limit: 500}); ; {
			sent := time.Since(start)
			p, err := pruning.Prune(b.Context(), uuid.Nil, request)
			if err != nil {
				b.Fatal(err)
			}
			pruned += p.Runs
			var more bool
			if request, more = request.Rest(p); more {
				continue
			}
			if ended > 0 && sent > ended+keep {
				break
			}
			select {
			case ended = <-end:
			default:
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := pruned - before; n < 10*rate-1000 {
			b.Fatalf("%d runs were deleted", n)
		}
		added, adds, late = added+10*rate, adds+ended, late+time.Since(start)-ended
		addTime += processorTime(b, adding) - beforeAdds
		pruneTime += processorTime(b, pruning) - beforePrunes
	}
	b.ReportMetric(float64(added)/adds.Seconds(), "added/s")
	b.ReportMetric(float64(pruned)/(adds+late-keep).Seconds(), "pruned/s")
	b.ReportMetric(float64(addTime.Microseconds())/float64(added), "µs-add/run")
	b.ReportMetric(float64(pruneTime.Microseconds())/float64(pruned), "µs-prune/run")
	b.ReportMetric(0, "ns/op")
}
