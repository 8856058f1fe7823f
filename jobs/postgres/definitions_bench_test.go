package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	benchJobs     = 10_000
	benchReplicas = 10
)

// BenchmarkDeploy measures a deploy with a large cron table and many replicas, each of which
// registers all jobs.
func BenchmarkDeploy(b *testing.B) {
	if server == nil {
		b.Skip("needs PostgreSQL: run without -short")
	}
	store, err := Open(b.Context(), Options{URL: server.Clone(b, template), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	release := 0
	var before []uuid.UUID
	for range benchReplicas {
		before = append(before, benchSession(b, store, release))
	}
	for _, changed := range []string{"nothing", "everything"} {
		b.Run("a replica registers, changed is "+changed, func(b *testing.B) {
			for b.Loop() {
				if changed == "everything" {
					release++
				}
				b.StopTimer()
				id := benchOpen(b, store)
				b.StartTimer()
				benchRegister(b, store, id, release)
				b.StopTimer()
				benchEnd(b, store, id)
				b.StartTimer()
			}
		})
		b.Run("a replica ends, changed was "+changed, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if changed == "everything" {
					release++
				}
				id := benchSession(b, store, release)
				b.StartTimer()
				benchEnd(b, store, id)
			}
		})
	}
	b.Run("all replicas register at once", func(b *testing.B) {
		for b.Loop() {
			release++
			b.StopTimer()
			sessions := make([]uuid.UUID, benchReplicas)
			for i := range sessions {
				sessions[i] = benchOpen(b, store)
			}
			b.StartTimer()
			var all sync.WaitGroup
			for _, id := range sessions {
				all.Go(func() { benchRegister(b, store, id, release) })
			}
			all.Wait()
			b.StopTimer()
			for _, id := range sessions {
				benchEnd(b, store, id)
			}
			b.StartTimer()
		}
	})
	b.Run("versions are read", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.Versions(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("a heartbeat", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.Heartbeat(b.Context(), before[0],
				storage.ReplicaStatus{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("an idle sweep", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.Sweep(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("a page of misfire checks", func(b *testing.B) {
		versions, err := store.Versions(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		checks := make([]storage.MisfireCheck, storage.MaxBatch)
		for i := range checks {
			name := fmt.Sprintf("job-%05d", i)
			checks[i] = storage.MisfireCheck{Job: name, Version: versions[name].Version}
		}
		until := time.Now()
		for b.Loop() {
			until = until.Add(time.Minute)
			for i := range checks {
				checks[i].ScheduledAt, checks[i].Until = until, until
			}
			cursors, err := store.CheckMisfires(b.Context(), checks,
				func(string, storage.Cursor) []storage.Misfired { return nil })
			if err != nil || len(cursors) != len(checks) {
				b.Fatalf("got %d cursors (%v), want %d", len(cursors), err, len(checks))
			}
		}
	})
}

func benchOpen(b *testing.B, store *Store) uuid.UUID {
	b.Helper()
	id := uuid.New()
	if err := store.Open(b.Context(),
		storage.Session{ID: id, Replica: "a", Version: "test", TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	return id
}

func benchRegister(b *testing.B, store *Store, id uuid.UUID, release int) {
	b.Helper()
	definitions := make([]storage.Definition, benchJobs)
	for i := range definitions {
		definitions[i] = storage.Definition{Name: fmt.Sprintf("job-%05d", i),
			Hash: fmt.Sprint("release ", release), Schedule: "* * * * *", Zone: "UTC",
			Handler: "sql"}
	}
	if _, err := store.Register(b.Context(), id, definitions); err != nil {
		b.Error(err)
	}
}

func benchSession(b *testing.B, store *Store, release int) uuid.UUID {
	b.Helper()
	id := benchOpen(b, store)
	benchRegister(b, store, id, release)
	return id
}

func benchEnd(b *testing.B, store *Store, id uuid.UUID) {
	b.Helper()
	if err := store.End(context.WithoutCancel(b.Context()), id); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRegister registers new jobs, then the same jobs for another session, and then with other
// descriptions for a third one. The metrics are the processor time of PostgreSQL's backends for
// each job.
func BenchmarkRegister(b *testing.B) {
	s := openAs(b, database(b), "a")
	const n = 20_000
	definitions := make([]storage.Definition, n)
	register := func() time.Duration {
		session := benchOpen(b, s)
		before := usedBy(b, backendsOf(b, s))
		if _, err := s.Register(b.Context(), session, definitions); err != nil {
			b.Fatal(err)
		}
		used := usedBy(b, backendsOf(b, s)) - before
		benchEnd(b, s, session)
		return used
	}
	var added, known, described time.Duration
	for round := 0; b.Loop(); round++ {
		for i := range definitions {
			job := fmt.Sprintf("rollup-%02d.%05d", round, i)
			definitions[i] = storage.Definition{Name: job,
				Hash: "0123456789abcdef0123456789abcdef", Schedule: "30 3 * * *", Zone: "UTC",
				Fingerprint: "30 3 * * *", Handler: "sql",
				Resources: request(b, job, job).Requests}
		}
		added += register()
		known += register()
		for i := range definitions {
			definitions[i].Description = "Rolls up the sales of a customer."
		}
		described += register()
	}
	jobs := float64(b.N * n)
	b.ReportMetric(float64(added.Microseconds())/jobs, "µs-new/job")
	b.ReportMetric(float64(known.Microseconds())/jobs, "µs-known/job")
	b.ReportMetric(float64(described.Microseconds())/jobs, "µs-described/job")
	b.ReportMetric(0, "ns/op")
}
