package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// notes records in the store what becomes of firings that have not started.
type notes struct {
	replica string
	clock   *clusterClock
	calls   *batcher[sessionCall[storage.Note], bool]
	events  *events
	// It is closed one session TTL after the begin of the stop. Then write gives up. Otherwise a
	// row that a transaction holds would keep the replica from stopping.
	overtime <-chan struct{}
}

// leave records a firing that a stopping replica has not started as waiting, for another replica to
// adopt. b is its blocker, or nil.
func (n *notes) leave(f *firing, b *refusal) {
	if f.session.Context().Err() != nil {
		return
	}
	if b == nil {
		b = &refusal{reason: reasons.Shutdown,
			detail: "replica " + n.replica + " stopped before it started the run"}
	}
	if n.note(f, jobs.Waiting, b, b.detail) {
		f.spans.ended(jobs.Waiting, b.reason, nil)
	}
}

// miss records that the firing could not begin in time. b is its blocker, or nil.
func (n *notes) miss(f *firing, policy *waitPolicy, b *refusal) {
	if b == nil {
		b = &refusal{detail: f.blockerText}
		if b.detail == "" {
			b.detail = "replica " + n.replica + " had not begun it by then"
		}
	}
	n.skip(f, policy, b, f.expiry(b))
}

// skip records that the firing did not run, its blocker, and the reason for the end of its wait.
func (n *notes) skip(f *firing, policy *waitPolicy, b *refusal, end jobs.Reason) {
	detail := b.words()
	if b.final(f) == "" && b.reason != "" {
		detail = fmt.Sprintf("%s; tried %s in %s", detail,
			plural.Of(policy.tries.Attempts(), "time", "times"),
			n.clock.now().Sub(f.since).Round(time.Millisecond))
	}
	switch {
	case end == reasons.Deadline, f.limited() && end != reasons.JobGone:
		detail = f.lateWords(detail)
	case end == reasons.Superseded:
		detail += fmt.Sprintf("; it waited until %s, when a later scheduled time took its place",
			policy.until.Format(time.RFC3339))
	}
	state := jobs.Skipped
	if f.attempt > 1 { // it has run before, so only an attempt is skipped
		state, detail = jobs.Failed, fmt.Sprintf("attempt %d did not start: %s", f.attempt, detail)
		if end == reasons.JobGone { // as if a sweep ended it
			state = jobs.Cancelled
		}
	}
	ended := *b
	ended.reason = end
	if !n.note(f, state, &ended, detail) {
		return
	}
	event := f.info().Str("state", string(state)).Str("reason", string(end))
	if b.blocker != nil {
		event = event.Str("resource", b.blocker.Resource).Str("holder_job", b.blocker.Holder.Job).
			Str("holder_replica", b.blocker.Holder.Replica).Str("holder_run", b.blocker.Holder.Run)
	}
	event.Msg("firing skipped")
}

// fail records a start that the store refuses for good.
func (n *notes) fail(f *firing, err error) {
	f.error().Err(err).Msg("start refused by the store")
	n.write(f, storage.Note{State: jobs.Failed, Detail: "the store refused the start",
		Error: err.Error()})
}

// note records the state of the firing, with its blocker and its lock requests. It reports whether
// the firing still belongs to this replica.
func (n *notes) note(f *firing, state jobs.State, b *refusal, detail string) bool {
	return n.write(f, storage.Note{State: state, Reason: b.reason, Detail: detail,
		Blocker: b.blocker, Requests: f.entry.requests})
}

// write sends a note until the store has answered, the session has ended, or the replica has been
// stopping for too long. It reports whether the firing still belongs to this replica.
func (n *notes) write(f *firing, note storage.Note) bool {
	note.Run, note.Firing, note.Version = f.run, f.Firing, f.startVersion()
	note.WaitSince, note.Reserve = f.since, f.entry.ReserveTime()
	note.New = f.adopted == uuid.Nil && !f.written
	for held := false; ; {
		stands, err := n.calls.ask(f.session.Context(),
			sessionCall[storage.Note]{f.session.ID, note}, held)
		held = errors.Is(err, storage.ErrRowHeld)
		note.New = false
		if err == nil {
			f.written = f.written || stands
			if stands && note.State.Final() {
				n.events.notStarted(f, note)
				f.spans.ended(note.State, note.Reason, nil)
			}
			if !stands {
				n.events.revoked(f)
			}
			return stands
		}
		if !errors.Is(err, storage.ErrUnavailable) || f.session.Context().Err() != nil {
			f.warn().Err(err).Str("state", string(note.State)).Msg("record firing failed")
			return false
		}
		select {
		case <-n.overtime:
			f.warn().Err(err).Str("state", string(note.State)).
				Msg("record firing failed, giving up at shutdown")
			return false
		default:
		}
		sleep.For(f.session.Context(), startBackoff)
	}
}
