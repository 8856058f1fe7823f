package metrics

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// The test calls every method of a store and checks that the metric with its name counted the call.
func TestEveryOperationIsTimed(t *testing.T) {
	untimed := map[string]string{
		"Close": "it asks nothing", "ClusterID": "it asks nothing", "Listen": "it lasts as long as it can",
	}
	m := New(Options{})
	closed := simstore.New()
	closed.Close() // failed calls are timed too
	store, methods := reflect.ValueOf(m.Store(closed)), reflect.TypeFor[storage.Store]()
	for i := range methods.NumMethod() {
		method := methods.Method(i)
		name := "holdfast_store_duration_seconds{operation=" + underscored(method.Name) + "} count"
		if untimed[method.Name] != "" {
			continue
		}
		arguments := []reflect.Value{reflect.ValueOf(t.Context())}
		for n := 1; n < method.Type.NumIn(); n++ {
			arguments = append(arguments, reflect.Zero(method.Type.In(n)))
		}
		called := store.MethodByName(method.Name)
		if method.Type.IsVariadic() {
			called.CallSlice(arguments)
		} else {
			called.Call(arguments)
		}
		if got := series(t, m)[name]; got != 1 {
			t.Errorf("%s was called once, and timed %v times", method.Name, got)
		}
	}
}

func underscored(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// failing is a store whose next call fails.
type failing struct {
	storage.Store
	err     error
	results []storage.StartResult
}

func (f *failing) Run(context.Context, uuid.UUID) (storage.Record, error) {
	return storage.Record{}, f.err
}
func (f *failing) Start(context.Context, uuid.UUID,
	[]storage.StartRequest) ([]storage.StartResult, error) {
	return f.results, f.err
}
func (f *failing) Sweep(context.Context) (storage.Swept, error) {
	return storage.Swept{Sessions: []string{"a", "b"}}, f.err
}

// Failures are counted by kind. ErrNotFound and refused actions of operators are not failures. The
// results of the store are passed on unchanged.
func TestStoreFailures(t *testing.T) {
	m := New(Options{})
	inner := &failing{}
	store := m.Store(inner)
	for err, kind := range map[error]string{
		nil: "", storage.ErrNotFound: "", storage.ErrUnavailable: "unavailable",
		fmt.Errorf("x: %w", storage.ErrRowHeld): "row_held", storage.ErrSessionLost: "session_lost",
		fmt.Errorf("x: %w", storage.ErrSuperseded): "superseded",
		context.Canceled: "cancelled", errors.New("what"): "other",
		&storage.PausedError{}: "", &storage.BusyError{}: "", &storage.BadInputError{}: "",
		fmt.Errorf("x: %w", storage.ErrConflict): "", storage.ErrKeyUsed: "",
		storage.ErrHasDependents: "", storage.ErrFromConfig: "", storage.ErrInTransaction: "",
	} {
		inner.err = err
		before := series(t, m)
		if _, got := store.Run(t.Context(), uuid.New()); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
		after := series(t, m)
		for name := range after {
			if grown := after[name] > before[name]; strings.HasPrefix(name,
				"holdfast_store_errors_total") && grown != (name == "holdfast_store_errors_total{error="+kind+",operation=run}") {
				t.Errorf("%v: %s has grown: %v", err, name, grown)
			}
		}
		const timed = "holdfast_store_duration_seconds{operation=run} count"
		if after[timed] != before[timed]+1 {
			t.Errorf("%v was not timed", err)
		}
	}
	inner.err = nil
	if _, err := store.Sweep(t.Context()); err != nil ||
		series(t, m)["holdfast_swept_sessions_total{}"] != 2 {
		t.Errorf("swept: %v, %v", series(t, m)["holdfast_swept_sessions_total{}"], err)
	}
}

// Each result of a start has a label value.
func TestStartsAreCountedByAnswer(t *testing.T) {
	m := New(Options{})
	inner := &failing{results: []storage.StartResult{
		{Outcome: storage.StartGranted, Token: 1}, {Outcome: storage.StartGranted, Token: 2}, {Outcome: storage.StartBlocked, Reason: reasons.LockHeld},
		{Outcome: storage.StartBlocked, Reason: reasons.OlderWaiter}, {Outcome: storage.StartDuplicate}, {Outcome: storage.StartStale}, {Outcome: storage.StartPaused}, {},
	}}
	results, err := m.Store(inner).Start(t.Context(), uuid.New(), nil)
	if err != nil || len(results) != len(inner.results) {
		t.Fatalf("got results %v (%v), want those of the store", results, err)
	}
	for outcome, want := range map[string]float64{"granted": 2, "lock_held": 1, "older_waiter": 1,
		"duplicate": 1, "stale": 1, "paused": 1, "no_session": 1} {
		if got := series(t, m)["holdfast_starts_total{outcome="+outcome+"}"]; got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
}

// Every operation is timed. Failures are counted by kind, and refusals are not failures.
func TestBackend(t *testing.T) {
	m := New(Options{})
	faulty := lockingtest.NewFaulty(memory.New())
	b := m.Backend(faulty)
	ctx, ttl := t.Context(), time.Minute
	check := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	check(b.Add(ctx, "k", []byte("v"), ttl), nil)
	check(b.Add(ctx, "k", []byte("v"), ttl), locking.ErrNotStored)
	check(b.Renew(ctx, "k", []byte("w"), ttl), locking.ErrNotOwner)
	check(b.Delete(ctx, "none", []byte("w")), locking.ErrMissing)
	if found, err := b.Get(ctx, "k"); err != nil || string(found["k"]) != "v" {
		t.Errorf("got %q, %v", found, err)
	}
	for name, value := range series(t, m) {
		if strings.HasPrefix(name, "holdfast_memcached_errors_total") && value != 0 {
			t.Errorf("%s is %v before anything failed", name, value)
		}
	}
	faults := []lockingtest.Fault{lockingtest.Unavailable, lockingtest.LoseReply, lockingtest.Full}
	faulty.Choose(func(lockingtest.Op, string) (f lockingtest.Fault) {
		f, faults = faults[0], faults[1:]
		return f
	})
	check(b.Add(ctx, "l", []byte("v"), ttl), locking.ErrUnavailable)
	check(b.Add(ctx, "m", []byte("v"), ttl), locking.ErrUnclear)
	check(b.Add(ctx, "n", []byte("v"), ttl), locking.ErrFull)
	got := series(t, m)
	for name, want := range map[string]float64{
		"holdfast_memcached_duration_seconds{operation=add} count": 5, "holdfast_memcached_duration_seconds{operation=get} count": 1,
		"holdfast_memcached_duration_seconds{operation=renew} count": 1, "holdfast_memcached_duration_seconds{operation=delete} count": 1,
		"holdfast_memcached_errors_total{error=unavailable,operation=add}": 1, "holdfast_memcached_errors_total{error=unclear,operation=add}": 1,
		"holdfast_memcached_errors_total{error=full,operation=add}": 1, "holdfast_memcached_errors_total{error=other,operation=add}": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// Keys of one request may fail separately.
func TestEachKeyOfARequestIsCounted(t *testing.T) {
	m := New(Options{})
	faulty := lockingtest.NewFaulty(memory.New())
	b := m.Backend(faulty)
	faults := []lockingtest.Fault{lockingtest.None, lockingtest.None, lockingtest.LoseReply,
		lockingtest.LoseReply}
	faulty.Choose(func(lockingtest.Op, string) (f lockingtest.Fault) {
		f, faults = faults[0], faults[1:]
		return f
	})
	items := []locking.Item{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}}
	if all := b.DeleteAll(t.Context(), items); len(all) != len(items) {
		t.Errorf("%d answers", len(all))
	}
	faulty.Times(lockingtest.OpAdd, lockingtest.Full, 3)
	if all := b.AddAll(t.Context(), items, time.Minute); len(all) != len(items) {
		t.Errorf("%d answers", len(all))
	}
	got := series(t, m)
	if got["holdfast_memcached_duration_seconds{operation=add_all} count"] != 1 ||
		got["holdfast_memcached_errors_total{error=full,operation=add_all}"] != 3 {
		t.Errorf("numbers: %v", got)
	}
	if got["holdfast_memcached_duration_seconds{operation=delete_all} count"] != 1 ||
		got["holdfast_memcached_errors_total{error=unclear,operation=delete_all}"] != 2 {
		t.Errorf("numbers: %v", got)
	}
}
