package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/admin/status"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// givenUp is an outbox with deliveries that were given up.
type givenUp struct {
	storage.Outbox // the other methods are not used
	list           []storage.Undelivered
}

func (g givenUp) UndeliveredHooks(_ context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	if f.Failing {
		return nil, nil
	}
	return g.list, nil
}

// troubledNight is a cluster with four jobs that always fail and one that succeeds, a replica that
// drains, and deliveries that were given up.
func troubledNight() Options {
	o := calm()
	h := o.Store.(*history)
	h.replicas[1].Draining = true
	n := 100
	for i := range 5 {
		for _, name := range []string{"invoices", "reminders", "prices", "stock"} {
			n++
			failed := done(n, name, "replica-1", time.Duration(i+1)*time.Minute, time.Second,
				jobs.Failed)
			failed.Error = "statement 1: ERROR: column \"totl\" does not exist (SQLSTATE 42703)"
			h.runs = append(h.runs, failed)
		}
	}
	night := options(h)
	at := ago(time.Hour)
	night.Operations = operations.New(operations.Options{Control: auditOf{history: h},
		Outbox: givenUp{list: []storage.Undelivered{{ID: id(700), Webhook: "billing", Run: id(101),
			Job: "invoices", State: jobs.Failed, CreatedAt: at, Tries: 9, GaveUpAt: &at}}}})
	return night
}

// TestNothingIsHealthyWhileJobsFail is a regression test: the overview had the headline "All is
// well." while every run of four jobs failed.
func TestNothingIsHealthyWhileJobsFail(t *testing.T) {
	o := troubledNight()
	v := statusOf(t, o)
	if v.Severity != Red || v.Headline != "4 jobs fail repeatedly" || len(v.Problems) != 6 {
		t.Errorf("the status is %+v", v)
	}
	body := get(t, newServer(t, o).Handler(), "/").Body.String()
	for _, want := range []string{">4 jobs fail repeatedly</h1>",
		"Job invoices failed 5 times in a row.", "Replica replica-3 is draining.",
		"1 delivery of webhook billing was given up"} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
	for _, path := range []string{"/jobs", "/runs", "/locks", "/replicas", "/audit", "/webhooks"} {
		if body := get(t, newServer(t, o).Handler(), path).Body.String(); !strings.Contains(body,
			"6 problems") || strings.Contains(body, "Healthy") {
			t.Errorf("%s does not count the problems", path)
		}
	}
	if v := statusOf(t, calm()); v.Severity != Neutral || v.Headline != "Healthy" {
		t.Errorf("of a calm cluster: %+v", v)
	}
}

// TestRemovedJobIsNoProblem checks that a job that fails or is skipped is no problem any more after
// an operator has removed it, or while no live replica has it.
func TestRemovedJobIsNoProblem(t *testing.T) {
	for name, remove := range map[string]func(*storage.JobView){
		"removed": func(v *storage.JobView) { v.Removed = true },
		"absent":  func(v *storage.JobView) { v.AbsentSince = &noon },
	} {
		t.Run(name, func(t *testing.T) { testRemovedJob(t, remove) })
	}
}

func testRemovedJob(t *testing.T, remove func(*storage.JobView)) {
	o := troubledNight()
	h := o.Store.(*history)
	h.jobs = append(h.jobs, job("exports", "0 * * * *", "exports"))
	for i := range 5 {
		ago := time.Duration(i+1) * time.Hour
		skipped := done(200+i, "exports", "replica-1", ago, 0, jobs.Skipped)
		skipped.Reason = reasons.LockHeld
		h.runs = append(h.runs, skipped)
	}
	texts := []string{"invoices failed", "exports was skipped"}
	for _, text := range texts {
		if got := problemsOf(t, o); !strings.Contains(got, text) {
			t.Errorf("got problems %q, want one with %q", got, text)
		}
	}
	for i := range h.jobs {
		if name := h.jobs[i].Name; name == "invoices" || name == "exports" {
			remove(&h.jobs[i])
		}
	}
	for _, text := range texts {
		if got := problemsOf(t, o); strings.Contains(got, text) {
			t.Errorf("got problems %q, want none of removed jobs", got)
		}
	}
}

func TestStatusWithoutTheStore(t *testing.T) {
	reply := get(t, newServer(t, down()).Handler(), "/api/v1/status")
	var v Status
	if err := json.Unmarshal(reply.Body.Bytes(), &v); err != nil ||
		reply.Code != http.StatusServiceUnavailable || v.Severity != Red ||
		v.Headline != "PostgreSQL does not answer" {
		t.Errorf("got %d %s (%v), want 503 and a red verdict", reply.Code, reply.Body, err)
	}
}

func TestStatusOfAProgram(t *testing.T) {
	o := troubledNight()
	v := status.NewReader(status.Options{Store: o.Store, StoreName: "PostgreSQL",
		Operations: o.Operations})(t.Context())
	if v.Severity != Red || len(v.Problems) != 6 {
		t.Errorf("the status is %+v", v)
	}
	v = status.NewReader(status.Options{Store: down().Store,
		StoreName: "PostgreSQL"})(t.Context())
	if got := fmt.Sprint(v.Problems); v.Severity != Red ||
		!strings.Contains(got, "does not answer") {
		t.Errorf("without the store: %s", got)
	}
}

// TestViewAnswersLikeTheAPI compares what a program reads with the answers of the API, as JSON.
func TestViewAnswersLikeTheAPI(t *testing.T) {
	o, _ := withControl(contention())
	o.Trace = nil // only a server knows traces
	handler, ctx := newServer(t, o).Handler(), t.Context()
	answered[storage.Pause](t, post(handler, "/api/v1/pause", ""), 200)
	v := NewView(o)
	run, err := v.Run(ctx, id(31))
	if err != nil {
		t.Fatal(err)
	}
	attempt := run.Attempts[0].Attempt
	for path, read := range map[string]func() (any, error){
		"/api/v1/status":    func() (any, error) { return v.Overview(ctx).Status, nil },
		"/api/v1/jobs":      func() (any, error) { return v.Jobs(ctx) },
		"/api/v1/locks":     func() (any, error) { return v.Locks(ctx) },
		"/api/v1/replicas":  func() (any, error) { return v.Replicas(ctx) },
		"/api/v1/databases": func() (any, error) { return v.Databases(ctx) },
		"/api/v1/runs": func() (any, error) {
			return v.Runs(ctx, storage.RunFilter{Limit: defaultRuns})
		},
		"/api/v1/runs/" + id(31).String(): func() (any, error) { return run, nil },
		fmt.Sprintf("/api/v1/runs/%s/attempts/%d", id(31), attempt): func() (any, error) {
			return v.Attempt(ctx, id(31), attempt)
		},
		"/api/v1/pauses": func() (any, error) { return v.Pauses(ctx) },
		"/api/v1/audit":  func() (any, error) { return v.Audit(ctx, storage.AuditFilter{Limit: 100}) },
		"/api/v1/webhooks": func() (any, error) {
			return v.Undelivered(ctx, storage.UndeliveredFilter{Limit: defaultRuns})
		},
	} {
		value, err := read()
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want)+"\n", get(t, handler, path).Body.String()); diff != "" {
			t.Errorf("%s differs (-view +API):\n%s", path, diff)
		}
	}
}

// TestOverviewWithoutTheStore checks that the status says why a program could not read it.
func TestOverviewWithoutTheStore(t *testing.T) {
	for _, o := range []Overview{NewView(down()).Overview(t.Context()),
		UnreachableOverview(t.Context(), Options{StoreName: "PostgreSQL"},
			storage.ErrUnavailable)} {
		if o.Status.Severity != Red || o.Error == "" || !o.Stale || o.Waiting == nil {
			t.Errorf("got %+v, want a red status and the error", o)
		}
	}
}

// TestViewShowsProblemsAtOnce checks that a program whose first look found a memcached server that
// does not answer reports that server, although it does not know for how long it has not answered.
func TestViewShowsProblemsAtOnce(t *testing.T) {
	o := calm()
	down := gone("10.0.3.9:11211")
	down.Since = ago(0)
	o.Memcached, o.Replica = servers{down}, ""
	if v := NewView(o).Overview(t.Context()).Status; v.Severity != Amber ||
		len(v.Problems) != 1 ||
		!strings.HasPrefix(v.Problems[0].Text, "memcached 10.0.3.9:11211 does not answer: dial") {
		t.Errorf("got %+v, want amber and the server", v)
	}
	unread := UnreachableOverview(t.Context(), Options{Memcached: o.Memcached},
		storage.ErrUnavailable)
	if v := unread.Status; len(v.Problems) != 2 {
		t.Errorf("without the store: got %+v, want the store and the server", v)
	}
	o.Replica = "replica-1"
	if v := statusOf(t, o); v.Severity != Neutral {
		t.Errorf("the first status of a server is %+v, want neutral", v)
	}
}
