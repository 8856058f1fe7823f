package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/fleet"
)

// TestMain runs the program instead of the tests if a test has started the binary as a worker.
func TestMain(m *testing.M) {
	if fleet.Joining() {
		if err := work(context.Background(), os.Args[1:]); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func startShow(t *testing.T, workers, turns int) *show {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached: run without -short")
	}
	s, err := newShow(t.Context(), workers, turns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestWorkersTakeTurns(t *testing.T) {
	s := startShow(t, 5, 10)
	for _, part := range []string{blocking, nonBlocking, semaphore} {
		got, err := s.play(t.Context(), part)
		if err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		t.Log(got)
		if err := got.check(); err != nil {
			t.Error(err)
		}
		if got.workers != 5 {
			t.Errorf("%s: got %d workers, want all 5", part, got.workers)
		}
	}
}

func TestDeadWorkersSlotIsFreed(t *testing.T) {
	s := startShow(t, 5, 1)
	took, err := s.killOneInside(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("freed after %s", took)
	if early := sessionTTL / 3; took < early {
		t.Errorf("the slot was taken %s after its holder died, before its session can have expired",
			took)
	}
}

func TestTooManyWorkersAreDetected(t *testing.T) {
	s := startShow(t, 5, 1)
	at := time.Now()
	for token := range 4 {
		if _, err := s.db.Exec(t.Context(), `INSERT INTO visits VALUES ($1, 'w', $2, $3, $4)`,
			semaphore, token+1, at, at.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.look(t.Context(), semaphore)
	if err != nil {
		t.Fatal(err)
	}
	if got.expected = 4; got.most != 4 || got.check() == nil {
		t.Errorf("%v went through", got)
	}
}
