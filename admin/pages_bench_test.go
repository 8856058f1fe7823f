package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// remembering is a history that returns its first answer to a question again, so that a benchmark
// does not measure the loops of history.
type remembering struct {
	*history
	answers sync.Map
}

func remembered[T any](h *remembering, question string, ask func() (T, error)) (T, error) {
	if known, ok := h.answers.Load(question); ok {
		return known.(T), nil
	}
	answer, err := ask()
	h.answers.Store(question, answer)
	return answer, err
}

func (h *remembering) ListJobs(ctx context.Context, f storage.JobFilter) ([]storage.JobView,
	error) {
	return remembered(h, fmt.Sprintf("jobs %+v", f), func() ([]storage.JobView, error) {
		return h.history.ListJobs(ctx, f)
	})
}

func (h *remembering) Outcomes(ctx context.Context, of []storage.OutcomesOf,
	n int) (map[string][]storage.Outcome, error) {
	return remembered(h, fmt.Sprint("outcomes ", n, of),
		func() (map[string][]storage.Outcome, error) { return h.history.Outcomes(ctx, of, n) })
}

func (h *remembering) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	later := "any"
	if f.Later != nil {
		later, f.Later = fmt.Sprint(*f.Later), nil
	}
	return remembered(h, fmt.Sprintf("runs %+v %s", f, later), func() ([]storage.Record, error) {
		if later != "any" {
			f.Later = new(later == "true")
		}
		return h.history.Runs(ctx, f)
	})
}

func (h *remembering) JobStates(ctx context.Context) ([]storage.JobState, error) {
	return remembered(h, "states", func() ([]storage.JobState, error) {
		return h.history.JobStates(ctx)
	})
}

func (h *remembering) EndedRuns(ctx context.Context, n int) (storage.EndedRuns, error) {
	return remembered(h, "ended", func() (storage.EndedRuns, error) {
		return h.history.EndedRuns(ctx, n)
	})
}

func (h *remembering) CountFiltered(ctx context.Context, f storage.RunFilter,
	most int) (storage.RunCount, error) {
	return remembered(h, fmt.Sprintf("count %+v", f), func() (storage.RunCount, error) {
		return h.history.CountFiltered(ctx, f, most)
	})
}

// full is a cluster with 1,000 jobs without groups, of which each has 20 runs in all states, and
// 400 more runs that hold tables or wait for them.
func full() Options {
	h := &history{now: noon, quarters: quartersUntil(noon), replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", time.Second, 40), liveReplica(2, "replica-2", time.Second, 40)}}
	states := []jobs.State{jobs.Failed, jobs.Skipped, jobs.TimedOut, jobs.Lost, jobs.Missed}
	for i := range 1000 {
		table := fmt.Sprintf("tenant_%03d.part_%05d", i%100, i)
		v := job(fmt.Sprintf("%s-%04d", []string{"load", "check", "merge", "prune"}[i%4], i),
			fmt.Sprintf("%d/15 * * * *", i%15), table)
		v.Description = "Loads the orders of the last hours of a tenant"
		h.jobs = append(h.jobs, v)
	}
	for k := range 20 {
		for i, v := range h.jobs {
			state := jobs.Succeeded
			if (i+k)%9 == 0 {
				state = states[(i+k)/9%len(states)]
			}
			r := done(10_000+k*1000+i, v.Name, fmt.Sprintf("replica-%d", 1+i%2),
				time.Duration(k)*15*time.Minute+time.Duration(i)*time.Second,
				time.Duration(200+i*7+k*31)*time.Millisecond, state)
			withReason(&r)
			h.runs = append(h.runs, r)
		}
	}
	for i := range 300 {
		v := h.jobs[i]
		run := running(40_000+i, v.Name, fmt.Sprintf("replica-%d", 1+i%2),
			time.Duration(i+1)*time.Second)
		resource := v.Resources[0].Resource
		h.runs = append(h.runs, run)
		h.locks = append(h.locks, storage.LockView{Resource: resource, Mode: v.Resources[0].Mode,
			Holder: owner(run), Token: run.Token, Since: run.CreatedAt,
			Expires: noon.Add(12 * time.Second)})
		if i%3 == 0 {
			wait := waiting(50_000+i, h.jobs[300+i].Name, time.Duration(i+1)*time.Second,
				resource.Key(), run)
			wait.Reason = reasons.LockHeld
			h.runs = append(h.runs, wait)
		}
	}
	o := options(h)
	o.Store = &remembering{history: h}
	at := make(map[string][]time.Time)
	for _, v := range h.jobs {
		at[v.Name] = h.scheduledTimes(v.Name, noon, 1)
	}
	o.ScheduledTimes = func(job string, _ time.Time, n int) []time.Time { return at[job] }
	return o
}

// BenchmarkPages answers requests for the pages that list most. It reports the length of an answer
// before and after its compression, too.
func BenchmarkPages(b *testing.B) {
	templates, err := parsed()
	if err != nil {
		b.Fatal(err)
	}
	server, err := build(full(), templates)
	if err != nil {
		b.Fatal(err)
	}
	handler := server.Handler()
	for _, page := range []struct{ name, path string }{
		{"overview", "/"}, {"jobs", "/jobs"}, {"jobs-by-duration", "/jobs?sort=duration"},
		{"job", "/jobs/load-0004"}, {"locks", "/locks"}, {"timeline", "/locks/timeline"},
		{"runs", "/runs"}, {"failed-runs", "/runs?state=failed"},
		{"run", "/runs/" + id(40_007).String()}, {"replicas", "/replicas"}, {"grid", "/grid"},
		{"agenda", "/agenda"},
	} {
		b.Run(page.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if reply := answerFor(handler, page.path, "gzip"); reply.Code != http.StatusOK {
					b.Fatalf("got %d: %s", reply.Code, reply.Body)
				}
			}
			b.ReportMetric(float64(answerFor(handler, page.path, "").Body.Len()), "bytes")
			b.ReportMetric(float64(answerFor(handler, page.path, "gzip").Body.Len()), "gzip-bytes")
		})
	}
}

// answerFor requests a page from loopback in a coding.
func answerFor(handler http.Handler, path, coding string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "127.0.0.1:8080"
	request.Header.Set("Accept-Encoding", coding)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}
