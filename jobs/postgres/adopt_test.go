package postgres

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

type adopted struct {
	records []storage.Record
	err     error
}

// adopt begins an adoption in the background.
func (s *harness) adopt(store *Store, session uuid.UUID, names ...string) <-chan adopted {
	done := make(chan adopted, 1)
	go func() {
		records, err := store.Adopt(s.t.Context(), session, jobstest.Adoption(nil, 10, names...))
		done <- adopted{records, err}
	}()
	return done
}

// An adoption reads all waiting runs and then locks the free ones, one by one. Another adoption may
// take a run in between. Once the row is locked, the check of its session must be repeated.
func TestRunIsAdoptedOnceByConcurrentAdopts(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(s *harness, session uuid.UUID) error{
		"of a session that was swept": func(s *harness, session uuid.UUID) error {
			s.expire(session)
			_, err := s.a.Sweep(s.t.Context())
			return err
		},
		"of a session that ended by itself": func(s *harness, session uuid.UUID) error {
			return s.a.End(s.t.Context(), session)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			former, one, two := s.session(s.a, "former"), s.session(s.a, "a"), s.session(s.b, "b")
			first, second := request(t, "job", "orders"), request(t, "job", "sales")
			first.Firing.ScheduledAt, first.WaitSince = second.Firing.ScheduledAt.Add(-time.Second),
				second.WaitSince.Add(-time.Second)
			for _, r := range []storage.StartRequest{first, second} {
				accepted, err := s.a.Note(t.Context(), former,
					[]storage.Note{{Run: r.Run, Firing: r.Firing, State: jobs.Waiting,
						Requests: r.Requests, WaitSince: r.WaitSince}})
				if err != nil || !accepted[0] {
					t.Fatalf("finish: got %v (%v), want it accepted", accepted, err)
				}
			}
			if err := free(s, former); err != nil {
				t.Fatal(err)
			}
			resume := s.pause("b", "holdfast.waits", "UPDATE", "true")
			late := s.adopt(s.b, two, "job")
			awaitWaiting(s, "b", late) // it has looked at both runs, and locked the first
			early := <-s.adopt(s.a, one, "job")
			if early.err != nil || len(early.records) != 1 || early.records[0].ID != second.Run {
				t.Fatalf("adopted beside another adoption: %+v, %v", early.records, early.err)
			}
			resume()
			got := <-late
			if got.err != nil || len(got.records) != 1 || got.records[0].ID != first.Run {
				t.Errorf("adopted %+v, %v, want run %s alone", got.records, got.err, first.Run)
			}
			if owner := query[uuid.UUID](s, "SELECT session FROM holdfast.waits WHERE run = $1",
				second.Run); owner != one {
				t.Errorf("the second run changed hands")
			}
		})
	}
}

// The work of an adoption grows with the number of waits plus the number of jobs. A join of both
// compared each wait with each job: with 300 waits and 1,000 jobs it took 0.8 s, every second.
func TestAdoptionReadsWaitsAndJobsOnce(t *testing.T) {
	t.Parallel()
	const number, waits = 1000, 400
	for name, ended := range map[string]bool{"waits of a live session": false,
		"waits of an ended session": true} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			former, own := s.session(s.a, "former"), s.session(s.a, "a")
			s.exec(`
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at)
    SELECT gen_random_uuid(), 'job ' || n, now(), 'waiting', now()
        FROM generate_series(1, $1::int) n`, waits)
			s.exec(`
INSERT INTO holdfast.waits (run, session, since)
    SELECT id, $1::uuid, now() FROM holdfast.runs`, former)
			s.vacuum()
			if ended {
				if err := s.a.End(t.Context(), former); err != nil {
					t.Fatal(err)
				}
			}
			var asked []string
			for i := range number {
				asked = append(asked, fmt.Sprintf("job %d", i+1))
			}
			names, ahead, thresholds := adoptedColumns(jobstest.Adoption(nil, 10, asked...).Jobs)
			rows := s.rowsRead("", adoptRuns, own, names, "{}", 10, ahead, thresholds, 10,
				time.Duration(0))
			if most := 20 * (number + waits); rows > most {
				t.Errorf("%d rows for %d waits and %d jobs, want at most %d", rows, waits, number,
					most)
			}
			if rows := s.rowsRead("", adoptableJobs, own, "{}"); rows > 20*waits {
				t.Errorf("%d rows to find the jobs of %d waits, want at most %d", rows, waits,
					20*waits)
			}
			adopted := <-s.adopt(s.a, own, asked...)
			if want := map[bool]int{false: 0, true: 10}[ended]; adopted.err != nil ||
				len(adopted.records) != want {
				t.Errorf("%d runs adopted, %v, want %d", len(adopted.records), adopted.err, want)
			}
		})
	}
}

// Many runs may be triggered for later times. Each replica looks for free runs about once a second,
// so it must not read those.
func TestAdoptionDoesNotReadRunsForLaterTimes(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	for _, prepare := range []string{"SELECT", `
INSERT INTO holdfast.runs (id, job, scheduled_at, key, state, created_at)
    SELECT gen_random_uuid(), 'job', now() + interval '1 day', n, 'waiting', now()
        FROM generate_series(1, 5000) n;
INSERT INTO holdfast.waits (run, since, triggered) SELECT id, scheduled_at, true FROM holdfast.runs`,
	} {
		s.exec(prepare)
		s.vacuum()
		for _, statement := range []string{adoptRuns, adoptableJobs} {
			plan := s.plan(beginPipeline, statement)
			_, look, _ := strings.Cut(plan, "using waits_since on")
			if _, look, _ = strings.Cut(look, "\n"); !strings.HasPrefix(strings.TrimSpace(look),
				"Index Cond: (since <= ") {
				t.Errorf("adoption reads all waits:\n%s", plan)
			}
		}
	}
}

// Each replica looks for free runs about once a second. While there are none, it must not send the
// names of all jobs.
func TestAdoptionOfNothingIsSmall(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	proxied, proxy := openProxied(t, s.url)
	session := s.session(s.a, "a")
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("roll-up of the orders of tenant %d", i))
	}
	wanted := jobstest.Adoption(nil, 10, names...)
	adopt := func() []storage.Record {
		t.Helper()
		records, err := proxied.Adopt(t.Context(), session, wanted)
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
	adopt() // which opens the connection and prepares the statements
	var sent atomic.Int64
	proxy.OnRequest(func(piece []byte) servertest.Fate {
		sent.Add(int64(len(piece)))
		return servertest.Pass
	})
	if records := adopt(); len(records) != 0 || sent.Load() == 0 {
		t.Errorf("adopted %d runs by %d bytes", len(records), sent.Load())
	}
	if n := sent.Load(); n > 10_000 {
		t.Errorf("%d bytes were sent for nothing, want at most 10,000", n)
	}
}
