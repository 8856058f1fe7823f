package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The listener is in another database, which behaves like a pooler that shares sessions: the
// command succeeds, and no notification arrives.
func TestListenReportsMissingNotifications(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.a.connector = openAs(t, database(t), "elsewhere").connector
	s.a.listenTimeout = 50 * time.Millisecond
	err := s.a.Listen(t.Context(), func() { t.Error("notifications: got one, want none") })
	if !errors.Is(err, errNotNotified) || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("listening ended with %v", err)
	}
}

// Listen must return when its connection ends, so that the caller connects again.
func TestListeningEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, ended := make(chan bool, 10), make(chan error, 1)
	go func() { ended <- s.a.Listen(ctx, func() { heard <- true }) }()
	select {
	case <-heard:
	case err := <-ended:
		t.Fatal(err)
	}
	if n := query[int](s,
		`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'a'
				AND query LIKE 'LISTEN%'`); n != 1 {
		t.Fatalf("%d connections listen", n)
	}
	if err := <-ended; !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("listening ended with %v", err)
	}
}

// A former primary answers, but others notify the new primary.
func TestListeningLeavesAServerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	former := s.a.connector.config.Copy()
	former.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	s.a.connector = connector{former}
	s.a.listenSilence = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.a.Listen(ctx, func() {}); !errors.Is(err, errNotPrimary) {
		t.Errorf("listening ended with %v", err)
	}
}
