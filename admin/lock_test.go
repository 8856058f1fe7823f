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

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// stages asks for the locks and returns what stage 1 says of each.
func stages(t *testing.T, o Options) map[string]Stage1State {
	t.Helper()
	reply := get(t, newServer(t, o).Handler(), "/api/v1/locks")
	var locks []Lock
	if err := json.Unmarshal(reply.Body.Bytes(), &locks); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]Stage1State)
	for _, l := range locks {
		found[l.Resource] = l.Stage1
	}
	return found
}

func TestStage1States(t *testing.T) {
	want := map[string]Stage1State{
		"public/orders": Stage1Held, "public/events": Stage1Missing, "public/sales_rollup": Stage1Other,
		"public/customers": Stage1Off, "slot:vendor-api": Stage1Off,
	}
	o := contention()
	if diff := cmp.Diff(want, stages(t, o)); diff != "" {
		t.Errorf("with stage 1 (-want +got):\n%s", diff)
	}
	for _, resource := range o.Stage1.(*stage1).asked {
		if resource.Kind() != locking.KindTable || resource == table("customers") {
			t.Errorf("stage 1 was asked for %s, which it does not take", resource)
		}
	}
	o.Stage1 = nil
	for resource, state := range stages(t, o) {
		if state != Stage1Off {
			t.Errorf("without stage 1 %s is %s", resource, state)
		}
	}
	o.Stage1 = &stage1{err: errors.New("no route")}
	if got := stages(t, o); got["public/orders"] != Stage1Unknown ||
		got["public/customers"] != Stage1Off {
		t.Errorf("stage 1 down: %v", got)
	}
}

// A lock of a program may have neither job nor run.
func TestLocksOfPrograms(t *testing.T) {
	nobody := locking.Owner{Replica: "tool-1"}
	view := jobs.LockView{Resource: table("orders"), Mode: locking.Exclusive, Holder: nobody,
		Token: 7, Since: ago(time.Minute), Expires: noon.Add(time.Second)}
	o := calm()
	o.Store.(*history).locks = []jobs.LockView{view}
	for job, want := range map[string]Stage1State{"": Stage1Held, "other": Stage1Other} {
		o.Stage1 = &stage1{holders: map[locking.Resource]locking.Holder{
			view.Resource: {Owner: locking.Owner{Replica: "tool-1", Job: job}}}}
		if got := stages(t, o)["public/orders"]; got != want {
			t.Errorf("entry of job %q: %s, want %s", job, got, want)
		}
	}
	page := get(t, newServer(t, o).Handler(), "/").Body.String()
	if !strings.Contains(page, `class="wide">a program <span class="sub">on <bdi>tool-1</bdi>`) {
		t.Errorf("the page does not say that a program holds:\n%s", page)
	}
}

// TestLockThatEndedMeanwhile has a run end after the store was asked and
// before stage 1 is: it is no lost lock.
func TestLockThatEndedMeanwhile(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	asked := 0
	h.onLocks = func() {
		if asked++; asked == 2 {
			h.locks = nil
		}
	}
	o.Stage1 = &stage1{}
	if got := stages(t, o); len(got) != 0 {
		t.Errorf("locks are %v, want none", got)
	}
	if asked != 2 {
		t.Errorf("the store was asked %d times, want 2", asked)
	}
}

// slowStage1 answers when its context ends.
type slowStage1 struct{}

func (slowStage1) Inspect(ctx context.Context,
	_ []locking.Resource) (map[locking.Resource]locking.Holder, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// slowHistory answers Locks when its context ends.
type slowHistory struct{ *history }

func (slowHistory) Locks(ctx context.Context) ([]jobs.LockView, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSlowAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := calm()
		o.Stage1 = slowStage1{}
		start := time.Now()
		if got := stages(t, o); got["public/events"] != Stage1Unknown {
			t.Errorf("locks are %v", got)
		}
		if took := time.Since(start); took != stage1Timeout {
			t.Errorf("slow stage 1 took %s", took)
		}

		o.Store = slowHistory{o.Store.(*history)}
		server := newServer(t, o)
		start = time.Now()
		reply := get(t, server.Handler(), "/api/v1/locks")
		if took := time.Since(start); took != questionTimeout || reply.Code != 503 {
			t.Errorf("slow store: %d after %s", reply.Code, took)
		}
		const want = `{"error":"The store could not be asked: no answer within 3s: locks: context deadline exceeded"}`
		var got map[string]string
		if err := json.Unmarshal(reply.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if text, _ := json.Marshal(got); string(text) != want {
			t.Errorf("%s", text)
		}
	})
}

func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(calm())
		release := make(chan struct{})
		for range maxQuestions {
			go func() {
				_ = r.ask(t.Context(), func(context.Context) error { <-release; return nil })
			}()
		}
		synctest.Wait()
		never := func(context.Context) error { t.Error("asked beyond the bound"); return nil }
		if err := r.ask(t.Context(), never); !errors.Is(err, errBusy) {
			t.Errorf("error is %v, want errBusy", err)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if err := r.ask(left, never); !errors.Is(err, context.Canceled) {
			t.Errorf("error of a client that left is %v", err)
		}
		close(release)
		synctest.Wait()
		if err := r.ask(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
