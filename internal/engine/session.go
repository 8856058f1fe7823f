package engine

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/session"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// liveSession is a session of this replica. Its context ends, with a cause that wraps
// ErrSessionLost, when the session can no longer be trusted.
type liveSession = session.Session[struct{}]

// keeper keeps this replica's session open. One heartbeat renews all claims at
// once, and reports a change of the active definitions.
type keeper struct {
	*session.Keeper[struct{}]

	store      sessionStore
	activation *activation
	revoke     func(ctx context.Context, token jobs.Token, state jobs.State,
		reason jobs.Reason) error
	replica        string
	replaceEarlier bool // the first session ends earlier sessions of this replica's name
	version        string
	servers        string        // see Session.LockServers
	hash           func() string // see Session.Table
	opened         string        // the hash with which open opened the session
	replicaStatus  func() storage.ReplicaStatus
	interval       time.Duration
	ttl            time.Duration
	clock          *clusterClock
	active         *active
	log            zerolog.Logger
	// heard is called with each reply, the session, and the time before the heartbeat.
	heard func(at time.Time, session uuid.UUID, reply storage.HeartbeatReply)
	// holds a value when a heartbeat must be sent at once: an operator may have released claims, or
	// the replica is stopping
	heartbeatNow chan struct{}
}

// newKeeper returns k with its session.Keeper.
func newKeeper(k *keeper) *keeper {
	k.heartbeatNow = make(chan struct{}, 1)
	k.Keeper = session.New(session.Options[struct{}]{
		TTL: k.ttl, Interval: k.interval, Log: k.log,
		Open: k.open, Prepare: k.prepare, Heartbeat: k.heartbeat, Lost: k.cancelled,
		End: k.store.End, Permanent: refusesForGood,
		HeartbeatNow: k.heartbeatNow, Wake: k.activation.wake, OnWake: k.activation.catchUp,
	})
	return k
}

// refusesForGood reports whether a retry cannot change the error of an opening.
func refusesForGood(err error) bool {
	return !errors.Is(err, storage.ErrUnavailable) && !errors.Is(err, storage.ErrSessionLost)
}

// session returns the session under which runs may start now, or nil.
func (k *keeper) session() *liveSession {
	s, err := k.Session()
	if err != nil {
		return nil
	}
	return s
}

// id returns the id of that session, or a zero id.
func (k *keeper) id() uuid.UUID {
	if s := k.session(); s != nil {
		return s.ID
	}
	return uuid.Nil
}

func (k *keeper) open(ctx context.Context, id uuid.UUID, first bool) error {
	k.opened = k.hash()
	return k.store.Open(ctx, storage.Session{ID: id, Replica: k.replica, Version: k.version,
		TTL:            k.ttl,
		ReplaceEarlier: k.replaceEarlier && first, LockServers: k.servers, Table: k.opened})
}

// prepare registers this replica's definitions. A large cron table may take all the time that the
// session has.
func (k *keeper) prepare(ctx context.Context, s *liveSession) error {
	return k.activation.register(ctx, s.ID, k.opened)
}

// heartbeat renews the session and measures the clock.
func (k *keeper) heartbeat(ctx context.Context, s *liveSession) (
	apply func(context.Context) error, err error) {
	known := k.active.tokens()
	sent := time.Now()
	reply, err := k.store.Heartbeat(ctx, s.ID, k.replicaStatus())
	if err != nil {
		return nil, err
	}
	if reply.SentAt.IsZero() {
		reply.SentAt, reply.AnsweredAt = sent, time.Now()
	}
	k.clock.measure(reply.SentAt, reply.AnsweredAt, reply.Now)
	at := k.clock.at(sent).UTC()
	return func(ctx context.Context) error {
		k.heard(at, s.ID, reply)
		k.compareClaims(ctx, known, reply.Claims)
		return k.activation.refresh(ctx, reply.Definitions)
	}, nil
}

// compareClaims cancels the runs that have lost their claims. It revokes claims
// without a run, which starts with a lost reply leave behind.
func (k *keeper) compareClaims(ctx context.Context, known []jobs.Token,
	claims map[jobs.Token]uuid.UUID) {
	for _, token := range known {
		if _, exists := claims[token]; !exists {
			k.active.cancel(token, jobs.ErrClaimLost)
		}
	}
	for _, token := range k.active.unknownClaims(claims, known) {
		k.log.Warn().Int64("token", int64(token)).
			Msg("unknown claim found, revoking it")
		if err := k.revoke(ctx, token, jobs.Lost, reasons.ClaimLost); err != nil {
			k.log.Warn().Err(err).Int64("token", int64(token)).
				Msg("revoke claim failed, retrying with the next heartbeat")
		}
	}
}

// cancelled logs how many runs the end of a session has cancelled.
func (k *keeper) cancelled(_ *liveSession, cause error) {
	if runs := k.active.len(); runs > 0 && !errors.Is(cause, session.ErrEnded) {
		k.log.Warn().Int("runs", runs).Msg("runs of a lost session cancelled")
	}
}
