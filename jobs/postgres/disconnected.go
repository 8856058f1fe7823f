package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// connectedSessions are the live sessions that have recorded a backend, and whether this
	// backend exists. $1 is when the connection of this statement recorded its own backend.
	connectedSessions = `
SELECT s.id, s.renewed_at, s.backend, s.renewed_at >= $1, s.backend = ANY(ARRAY(
    SELECT pg_stat_get_backend_pid(b) FROM pg_stat_get_backend_idset() b))
FROM holdfast.sessions s
WHERE s.ended_at IS NULL AND s.expires_at > clock_timestamp() AND s.backend IS NOT NULL`

	// expireDisconnected does nothing if the owner has shown since that it lives.
	expireDisconnected = `
UPDATE holdfast.sessions SET expires_at = clock_timestamp()
WHERE id = $1 AND renewed_at = $2 AND backend = $3 AND ended_at IS NULL
    AND expires_at > clock_timestamp()
RETURNING replica`

	// disconnectedFor is how long a session must at least be disconnected before it expires. The
	// owner opens a lost connection again within milliseconds.
	disconnectedFor = 900 * time.Millisecond

	// searchAfter is the delay of a search whose connection a heartbeat uses. Without it, a replica
	// that searches and sends heartbeats at the same times would often search too late.
	searchAfter = 100 * time.Millisecond
)

// backendOfSession is the backend that a session has recorded.
type backendOfSession struct {
	session uuid.UUID
	backend int32
}

// suspect is a session whose backend has ended. It remains one until its owner shows that it lives.
type suspect struct {
	backendOfSession
	renewedAt time.Time
	found     time.Time // first
}

// search is what the searches on one heartbeat connection have found.
type search struct {
	// open are the backends that the last search found. A restart, a crash or a failover of
	// PostgreSQL would have ended this connection. So a backend that was open and has ended since
	// was ended for itself.
	open     map[backendOfSession]bool
	suspects map[backendOfSession]suspect
}

// ExpireDisconnected implements storage.Upkeep. It uses the heartbeat connection of the session:
// see the section "Disconnected sessions" of the package documentation.
func (s *Store) ExpireDisconnected(ctx context.Context, session uuid.UUID) (
	storage.Disconnected, error) {
	own, another := s.heartbeats.takeOpen(session)
	switch {
	case another:
		return storage.Disconnected{Again: searchAfter}, nil
	case own == nil:
		return storage.Disconnected{}, nil
	}
	defer s.heartbeats.give(session, own)
	if !own.searches {
		own.search = search{}
		return storage.Disconnected{AfterHeartbeat: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	var expired []string
	err := own.use(ctx, s.connector, func(conn *pgx.Conn) (err error) {
		if own.since.IsZero() {
			return nil // the connection is new
		}
		found, err := s.findDisconnected(ctx, conn, own)
		if err == nil {
			expired, err = s.expireSuspects(ctx, conn, found)
		}
		return err
	})
	return storage.Disconnected{Replicas: expired, Again: s.nextSearch(own.search)},
		wrap("search for disconnected sessions", err)
}

// nextSearch returns the time until the next suspect may expire, or 0 if there is none.
func (s *Store) nextSearch(last search) time.Duration {
	var next time.Duration
	for _, f := range last.suspects {
		if left := s.disconnectedFor - time.Since(f.found); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// findDisconnected searches, and returns the sessions that were suspects for long enough before.
func (s *Store) findDisconnected(ctx context.Context, conn *pgx.Conn, own *sessionBackend) (
	again []suspect, err error) {
	rows, err := conn.Query(ctx, s.schema.in(connectedSessions), own.since)
	if err != nil {
		return nil, err
	}
	now, last := time.Now(), own.search
	next := search{map[backendOfSession]bool{}, map[backendOfSession]suspect{}}
	var f suspect
	var renewed, open bool // since this connection has recorded its own backend
	_, err = pgx.ForEachRow(rows, []any{&f.session, &f.renewedAt, &f.backend, &renewed, &open},
		func() error {
			known, isKnown := last.suspects[f.backendOfSession]
			switch {
			case open:
				next.open[f.backendOfSession] = true
			case isKnown && known.renewedAt.Equal(f.renewedAt):
				next.suspects[f.backendOfSession] = known
				if now.Sub(known.found) >= s.disconnectedFor {
					again = append(again, known)
				}
			case renewed || isKnown || last.open[f.backendOfSession]:
				f.found = now
				next.suspects[f.backendOfSession] = f
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	own.search = next
	return again, nil
}

// expireSuspects expires the sessions whose owners have not shown since that they live, and returns
// their replicas.
func (s *Store) expireSuspects(ctx context.Context, conn *pgx.Conn, suspects []suspect) (
	expired []string, err error) {
	if len(suspects) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	for _, f := range slices.SortedFunc(slices.Values(suspects), func(f, o suspect) int {
		return bytes.Compare(f.session[:], o.session[:])
	}) {
		b.Queue(expireDisconnected, f.session, f.renewedAt, f.backend).Query(
			func(rows pgx.Rows) error {
				replicas, err := pgx.CollectRows(rows, pgx.RowTo[string])
				expired = append(expired, replicas...)
				return err
			})
	}
	err = conn.SendBatch(ctx, s.schema.batch(b)).Close()
	if err != nil {
		return nil, err
	}
	return expired, nil
}
