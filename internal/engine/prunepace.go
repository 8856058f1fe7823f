package engine

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	pruneRest  = 4 // multiple of the time of a batch
	pruneLeast = 20 * time.Millisecond
)

// prunePace chooses the pauses between the batches of a round of pruning.
//
// A pause is usually four times as long as its batch, so that starts are not slowed down. It is
// shorter, or there is none, if the round needs more than 0.8 s for the runs that were created in a
// second. So the pace follows the rate at which the runs of this part of the history were created:
//
//   - A round never falls behind the runs that become old meanwhile, if the store can delete them
//     at all.
//   - A backlog of an hour is deleted within about five hours.
//   - A backlog of a month with few runs a second is deleted with the usual pauses.
//
// The round may be slower for a minute in all, so that runs that were created at one time do not
// count as a high rate.
type prunePace struct {
	ahead   time.Duration // how much longer the round could take; negative: it is late
	at      time.Time     // when the previous batch ended
	reached time.Time     // when the last run that the previous batch visited was created
}

// newPrunePace returns the pace of a round that begins now.
func newPrunePace() *prunePace { return &prunePace{ahead: pruneEvery, at: time.Now()} }

// pause returns the pause after a batch that ends now and took some time. visited is the last run
// that the batch visited; nil: it visited runs in another order, or none.
func (p *prunePace) pause(took time.Duration, visited *storage.RunCursor) time.Duration {
	usual := max(pruneLeast, pruneRest*took)
	if visited == nil {
		return usual
	}
	now, covered := time.Now(), time.Duration(0)
	if !p.reached.IsZero() {
		covered = max(0, visited.CreatedAt.Sub(p.reached))
	}
	p.ahead = min(p.ahead+covered-covered/5-now.Sub(p.at), pruneEvery)
	p.at, p.reached = now, visited.CreatedAt
	return min(usual, max(0, p.ahead))
}
