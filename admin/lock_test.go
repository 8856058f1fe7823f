package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// advisoryStates returns the state of each advisory lock from the API.
func advisoryStates(t *testing.T, o Options) map[string]AdvisoryState {
	t.Helper()
	reply := get(t, newServer(t, o).Handler(), "/api/v1/locks")
	var list []Lock
	if err := json.Unmarshal(reply.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]AdvisoryState)
	for _, l := range list {
		found[l.Resource] = l.Advisory
	}
	return found
}

func TestAdvisoryLockStates(t *testing.T) {
	want := map[string]AdvisoryState{
		"public/orders": AdvisoryHeld, "public/events": AdvisoryMissing,
		"public/sales_rollup": AdvisoryOther,
		"public/customers":    AdvisoryOff, "slot:vendor-api": AdvisoryOff,
	}
	o := contention()
	if diff := cmp.Diff(want, advisoryStates(t, o)); diff != "" {
		t.Errorf("with advisory locks (-want +got):\n%s", diff)
	}
	for _, resource := range o.Advisory.(*advisory).asked {
		if resource.Kind() != locking.KindTable || resource == table("customers") {
			t.Errorf("got a request to memcached for %s, which has no key there", resource)
		}
	}
	o.Advisory = nil
	for resource, state := range advisoryStates(t, o) {
		if state != AdvisoryOff {
			t.Errorf("without advisory locks %s is %s", resource, state)
		}
	}
	o.Advisory = &advisory{err: errors.New("no route")}
	if got := advisoryStates(t, o); got["public/orders"] != AdvisoryUnknown ||
		got["public/customers"] != AdvisoryOff {
		t.Errorf("memcached down: %v", got)
	}
}

// A lock of a program may have neither a job nor a run.
func TestLocksOfPrograms(t *testing.T) {
	nobody := locking.Owner{Replica: "tool-1"}
	view := storage.LockView{Resource: table("orders"), Mode: locking.Exclusive, Holder: nobody,
		Token: 7, Since: ago(time.Minute), Expires: noon.Add(time.Second)}
	o := calm()
	o.Store.(*history).locks = []storage.LockView{view}
	for job, want := range map[string]AdvisoryState{"": AdvisoryHeld, "other": AdvisoryOther} {
		o.Advisory = &advisory{holders: map[locking.Resource]locking.Holder{
			view.Resource: {Owner: locking.Owner{Replica: "tool-1", Job: job}}}}
		if got := advisoryStates(t, o)["public/orders"]; got != want {
			t.Errorf("entry of job %q: %s, want %s", job, got, want)
		}
	}
	page := get(t, newServer(t, o).Handler(), "/").Body.String()
	if !strings.Contains(page,
		`class="wide full"> a program <span class="sub">on <bdi>tool-1</bdi>`) {
		t.Errorf("the page does not say that a program holds:\n%s", page)
	}
}

// TestLockThatEndedMeanwhile ends a run between the query to the store and the one to memcached.
// The page must not report a lost lock.
func TestLockThatEndedMeanwhile(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	asked := 0
	h.onLocks = func() {
		if asked++; asked == 2 {
			h.locks = nil
		}
	}
	o.Advisory = &advisory{}
	if got := advisoryStates(t, o); len(got) != 0 {
		t.Errorf("locks are %v, want none", got)
	}
	if asked != 2 {
		t.Errorf("got %d queries to the store, want 2", asked)
	}
}

// slowAdvisory is an inspector that replies when its context ends.
type slowAdvisory struct{}

func (slowAdvisory) Inspect(ctx context.Context,
	_ []locking.Resource) (map[locking.Resource]locking.Holder, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// slowHistory replies to Locks when its context ends.
type slowHistory struct{ *history }

func (slowHistory) Locks(ctx context.Context) ([]storage.LockView, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSlowAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := calm()
		o.Advisory = slowAdvisory{}
		start := time.Now()
		if got := advisoryStates(t, o); got["public/events"] != AdvisoryUnknown {
			t.Errorf("locks are %v", got)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("slow memcached took %s", took)
		}

		o.Store = slowHistory{o.Store.(*history)}
		server, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		reply := get(t, server.Handler(), "/api/v1/locks")
		if took := time.Since(start); took != 3*time.Second || reply.Code != 503 {
			t.Errorf("slow store: %d after %s", reply.Code, took)
		}
		const want = `{"error":"The database query failed: no answer within 3s: locks: context deadline exceeded"}`
		var got map[string]string
		if err := json.Unmarshal(reply.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(got); string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
	})
}
