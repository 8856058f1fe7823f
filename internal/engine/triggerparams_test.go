package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

func TestMergeParams(t *testing.T) {
	for _, test := range []struct{ job, trigger, want string }{
		{`{"a":1,"b":{"c":2}}`, ``, `{"a":1,"b":{"c":2}}`},
		{`{"a":1,"b":{"c":2}}`, `null`, `{"a":1,"b":{"c":2}}`},
		{`{"a":1,"b":{"c":2}}`, `{"b":{"d":3}}`, `{"a":1,"b":{"d":3}}`},
		{`{"a":1}`, `{"a":null,"b":12345678901234567890}`, `{"a":null,"b":12345678901234567890}`},
		{``, `{"a":1}`, `{"a":1}`},
		{`null`, `{}`, `{}`},
	} {
		got, err := storage.MergeParams(json.RawMessage(test.job), json.RawMessage(test.trigger))
		if err != nil || string(got) != test.want {
			t.Errorf("%s over %s: got %s, %v, want %s", test.trigger, test.job, got, err,
				test.want)
		}
	}
	for _, trigger := range []string{`[1]`, `"a"`, `{`, `5`} {
		var refused *jobs.ParamsError
		if _, err := storage.MergeParams(json.RawMessage(`{"a":1}`),
			json.RawMessage(trigger)); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a *ParamsError", trigger, err)
		}
	}
}

// withTriggerParams is a store whose triggered runs get params from the trigger. Their keys are
// those params.
type withTriggerParams struct{ storage.Store }

func (s *withTriggerParams) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	records, err := s.Store.Adopt(ctx, session, a)
	for i := range records {
		if strings.HasPrefix(records[i].Key, "{") || strings.HasPrefix(records[i].Key, "[") {
			records[i].Params = json.RawMessage(records[i].Key)
		}
	}
	return records, err
}

type sales struct {
	Account string `json:"account"`
	Days    int    `json:"days"`
}

func (p sales) Validate() error {
	if p.Days < 0 {
		panic("days before the first")
	}
	return nil
}

func TestParamsOfATrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var mu sync.Mutex
		seen := map[string]string{}
		handler := jobs.Handle("work", func(_ context.Context, run *jobs.Run, p sales) error {
			mu.Lock()
			defer mu.Unlock()
			seen[run.Key] = fmt.Sprintf("%s %d %s", p.Account, p.Days, run.Params)
			return nil
		})
		j := job(t, "job", 1000*time.Hour)
		j.Params = json.RawMessage(`{"account":"acme","days":7}`)
		j.Retry = retry.Policy{Attempts: 3, Delay: time.Second}
		j.Overlap = jobs.OverlapAllow
		wrapped := 0
		o := c.options("a", []jobs.Registration{handler}, j)
		o.Store = &withTriggerParams{c.store}
		o.Middleware = []jobs.Middleware{func(next jobs.HandlerFunc) jobs.HandlerFunc {
			return func(ctx context.Context, run *jobs.Run) error {
				mu.Lock()
				wrapped++
				mu.Unlock()
				return next(ctx, run)
			}
		}}
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		runs := map[string]uuid.UUID{}
		for _, key := range []string{"plain", `{"days":30}`, `{"days":"many"}`, `{"dys":30}`,
			`{"days":-1}`, `[1]`} {
			r, err := c.store.Trigger(t.Context(), byHand,
				storage.TriggerRequest{Job: "job", Key: key})
			if err != nil {
				t.Fatal(err)
			}
			runs[key] = r.ID
		}
		time.Sleep(30 * time.Second)
		stop()
		for key, want := range map[string]string{
			"plain":       `acme 7 {"account":"acme","days":7}`,
			`{"days":30}`: `acme 30 {"account":"acme","days":30}`,
		} {
			if seen[key] != want {
				t.Errorf("%s: the handler saw %q, want %q", key, seen[key], want)
			}
		}
		if len(seen) != 2 || wrapped != 2 {
			t.Errorf("the handler saw %v, the middleware %d runs", seen, wrapped)
		}
		for key, want := range map[string]string{
			`{"days":"many"}`: "trigger params: params: days: found a string, expected a whole number",
			`{"dys":30}`:      `trigger params: params: dys: unknown key "dys", expected one of account, days`,
			`{"days":-1}`:     "handler panicked: days before the first",
			`[1]`:             "trigger params: params: expected a mapping of keys to values",
		} {
			r, err := c.store.Run(t.Context(), runs[key])
			if err != nil {
				t.Fatal(err)
			}
			attempts := 1
			if strings.Contains(want, "panicked") {
				attempts = 3
			}
			if r.State != jobs.Failed || r.Error != want || r.Attempt != attempts {
				t.Errorf("%s: %s %q after %d attempts, want %q after %d", key, r.State, r.Error,
					r.Attempt, want, attempts)
			}
		}
	})
}

func TestMiddlewareWrapsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var mu sync.Mutex
		var order []string
		record := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, text)
		}
		broken := errors.New("broken")
		around := func(name string) jobs.Middleware {
			return func(next jobs.HandlerFunc) jobs.HandlerFunc {
				return func(ctx context.Context, run *jobs.Run) error {
					record(name + " before " + run.Job)
					err := next(context.WithValue(ctx, contextKey{}, name), run)
					record(name + " after " + fmt.Sprint(errors.Is(err, broken)))
					return err
				}
			}
		}
		handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			record("handler in " + ctx.Value(contextKey{}).(string))
			return broken
		})
		o := c.options("a", []jobs.Registration{handler}, once(t, "failing", 10*time.Second),
			once(t, "panicking", 20*time.Second))
		o.Middleware = []jobs.Middleware{around("outer"), around("inner"),
			func(next jobs.HandlerFunc) jobs.HandlerFunc {
				return func(ctx context.Context, run *jobs.Run) error {
					if run.Job == "panicking" {
						panic("in the middle")
					}
					return next(ctx, run)
				}
			}}
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		want := "outer before failing, inner before failing, handler in inner, inner after true, " +
			"outer after true"
		mu.Lock()
		got := strings.Join(order, ", ")
		mu.Unlock()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		time.Sleep(15 * time.Second)
		stop()
		if r := c.runs("panicking")[0]; r.State != jobs.Failed || r.Reason != reasons.Panic ||
			r.Error != "handler panicked: in the middle" {
			t.Errorf("panic in the middleware: %+v", r)
		}
	})
}

type contextKey struct{}

func FuzzMergeParams(f *testing.F) {
	for _, seed := range [][2]string{{`{"a": 1}`, `{"b": [2]}`}, {`{"a": 1}`, `{"a": null}`},
		{"", "{}"}, {"null", "[]"}, {"{", "1"}, {`{"a": 1e999}`, `{"\u0000": "\ud800"}`}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, own, trigger string) {
		if len(own)+len(trigger) > 10_000 {
			return
		}
		merge := func(own json.RawMessage) (json.RawMessage, error) {
			return storage.MergeParams(own, json.RawMessage(trigger))
		}
		speedtest.Within10ms(t, own+" and "+trigger, func() { _, _ = merge(json.RawMessage(own)) })
		merged, err := merge(json.RawMessage(own))
		var bad *jobs.ParamsError
		if err != nil {
			if !errors.As(err, &bad) {
				t.Errorf("%q over %q: %v", trigger, own, err)
			}
			return
		}
		if again, err := merge(merged); err != nil || string(again) != string(merged) {
			t.Errorf("%q over %q is %s, and then %s, %v", trigger, own, merged, again, err)
		}
	})
}
