package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var anna = storage.Action{Actor: "anna", Via: "go"}

// triggerCalls are calls of one batch, with keys.
func triggerCalls(requests ...storage.TriggerRequest) []triggerCall {
	calls := make([]triggerCall, len(requests))
	for i, r := range requests {
		if r.Key == "" {
			r.Key = fmt.Sprint("key ", i)
		}
		calls[i] = triggerCall{run: uuid.Must(uuid.NewV7()), action: anna, request: r}
	}
	return calls
}

// TestTriggersShareATransaction sends a batch of different triggers. It must be one transaction in
// one round trip, once the definitions are known.
func TestTriggersShareATransaction(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.register(s.a, session, storage.Definition{Name: "export", Hash: "1"},
		storage.Definition{Name: "paused", Hash: "1"})
	if _, err := s.a.Pause(t.Context(), anna,
		storage.Target{Kind: storage.TargetJob, Name: "paused"}); err != nil {
		t.Fatal(err)
	}
	counter := &turns{}
	traced := openTraced(t, s.url, 1, counter)
	for round, batches := range []int{2, 1} {
		calls := triggerCalls(storage.TriggerRequest{Job: "export"},
			storage.TriggerRequest{Job: "export", Key: "twice"},
			storage.TriggerRequest{Job: "export", Key: "twice"},
			storage.TriggerRequest{Job: "paused"}, storage.TriggerRequest{Job: "nowhere"},
			storage.TriggerRequest{Job: "paused", EvenPaused: true})
		for i := range calls {
			calls[i].request.Key += fmt.Sprint(" of round ", round)
		}
		counter.batches, counter.queries = 0, 0
		answers, err := traced.triggers.send(t.Context(), calls)
		if err != nil {
			t.Fatal(err)
		}
		if counter.batches != batches || counter.queries != 0 {
			t.Errorf("round %d: %d batches and %d single statements, want %d and none", round,
				counter.batches, counter.queries, batches)
		}
		transactions := query[int](s, `SELECT count(DISTINCT xmin::text)::int FROM holdfast.runs
			WHERE key LIKE '% of round `+fmt.Sprint(round)+`'`)
		if transactions != 1 {
			t.Errorf("round %d: %d transactions, want 1", round, transactions)
		}
		var created []bool
		for i, a := range answers {
			created = append(created, a.Created)
			if a.Created && a.ID != calls[i].run {
				t.Errorf("trigger %d: got run %s, want %s", i, a.ID, calls[i].run)
			}
		}
		if got := fmt.Sprint(created); got != "[true true false false false true]" {
			t.Errorf("round %d: created %s", round, got)
		}
	}
}

// TestBadTriggerFailsAlone sends a trigger whose params PostgreSQL refuses together with others.
func TestBadTriggerFailsAlone(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.register(s.a, s.session(s.a, "a"), storage.Definition{Name: "export", Hash: "1"})
	calls := triggerCalls(storage.TriggerRequest{Job: "export"},
		storage.TriggerRequest{Job: "export", Params: json.RawMessage(`{"n": 1e999999}`)})
	if _, err := s.a.triggers.send(t.Context(), calls); err == nil ||
		errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("a batch: got %v, want an error after which it is split", err)
	}
	const n = 20
	errs := make([]error, n)
	var all sync.WaitGroup
	s.a.triggers.mu.Lock() // the first batch waits, and the next one gathers
	for i := range n {
		r := storage.TriggerRequest{Job: "export", Key: fmt.Sprint(i)}
		if i == 7 {
			r.Params = calls[1].request.Params
		}
		all.Go(func() { _, errs[i] = s.a.Trigger(t.Context(), anna, r) })
	}
	s.a.triggers.mu.Unlock()
	all.Wait()
	for i, err := range errs {
		if (err != nil) != (i == 7) || errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("trigger %d: %v", i, err)
		}
	}
	if runs := query[int](s, "SELECT count(*)::int FROM holdfast.runs"); runs != n-1 {
		t.Errorf("got %d runs, want %d", runs, n-1)
	}
}

// TestActionsSucceedWithoutNotification lets the notification of other replicas fail, which follows
// the commit.
func TestActionsSucceedWithoutNotification(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.register(s.a, s.session(s.a, "a"), storage.Definition{Name: "export", Hash: "1"})
	s.exec(`CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$`)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	params := u.Query()
	params.Set("search_path", "public,pg_catalog")
	u.RawQuery = params.Encode()
	full := openAs(t, u.String(), "full")
	calls := triggerCalls(storage.TriggerRequest{Job: "export"},
		storage.TriggerRequest{Job: "export"})
	answers, err := full.triggers.send(t.Context(), calls)
	if err != nil || !answers[0].Created || !answers[1].Created {
		t.Errorf("batch of triggers: %+v, %v", answers, err)
	}
	answer, err := full.Trigger(t.Context(), anna, storage.TriggerRequest{Job: "export"})
	if err != nil || !answer.Created {
		t.Errorf("trigger: %+v, %v", answer, err)
	}
	if _, err := full.Pause(t.Context(), anna,
		storage.Target{Kind: storage.TargetJob, Name: "export"}); err != nil {
		t.Errorf("pause: %v", err)
	}
	if n := query[int](s, "SELECT count(*)::int FROM holdfast.runs"); n != 3 {
		t.Errorf("got %d runs, want 3", n)
	}
	if _, err := full.pool.Exec(t.Context(), notify, "", ""); codeOf(err) != "54000" {
		t.Errorf("notify: %v, so this test shows nothing", err)
	}
}

// TestTriggersPassOneWhoseKeyIsLocked leaves a transaction with a trigger open. Another trigger
// with its key waits for it, and other triggers do not.
func TestTriggersPassOneWhoseKeyIsLocked(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.register(s.a, s.session(s.a, "a"), storage.Definition{Name: "export", Hash: "1"})
	tx := s.inTransaction(t, "SELECT")
	request := storage.TriggerRequest{Job: "export", Key: "held"}
	first, err := s.a.TriggerTx(t.Context(), tx, anna, request)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		storage.Triggered
		err error
	}
	second := make(chan result)
	go func() {
		answer, err := s.a.Trigger(t.Context(), anna, request)
		second <- result{answer, err}
	}()
	for i := range 3 {
		other := storage.TriggerRequest{Job: "export", Key: fmt.Sprint("other ", i)}
		if answer, err := s.a.Trigger(t.Context(), anna, other); err != nil || !answer.Created {
			t.Errorf("another key: got %+v, %v", answer, err)
		}
	}
	select {
	case r := <-second:
		t.Errorf("the same key, before the commit: got %+v, %v", r.Triggered, r.err)
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-second; r.err != nil || r.Created || r.ID != first.ID {
		t.Errorf("the same key: got %+v, %v, want run %s", r.Triggered, r.err, first.ID)
	}
}

// TestTriggersOfABatchAreAsAlone compares the runs and the entries of the audit log of triggers in
// a batch with those of the same triggers in transactions of their own.
func TestTriggersOfABatchAreAsAlone(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.register(s.a, s.session(s.a, "a"), storage.Definition{Name: "export", Hash: "1"})
	by := storage.Action{Actor: "anna", Via: "api", Proof: "token", Client: "127.0.0.1",
		RequestID: "request", Replica: "web", Reason: "late order"}
	at := time.Date(2030, 1, 2, 3, 4, 5, 120000000, time.UTC)
	for name, r := range map[string]storage.TriggerRequest{
		"now": {}, "at": {At: at}, "full second": {At: at.Truncate(time.Second)},
		"past":   {At: time.Date(2020, 1, 2, 3, 4, 5, 123456789, time.UTC)},
		"delay":  {Delay: time.Hour},
		"limit":  {Wait: new(time.Minute)},
		"params": {Params: json.RawMessage(`{"order": 1, "text": "ä\"'"}`)},
	} {
		r.Job = "export"
		rows := map[string]string{}
		for way, trigger := range map[string]func(storage.TriggerRequest) error{
			"a batch": func(r storage.TriggerRequest) error {
				_, err := s.a.Trigger(t.Context(), by, r)
				return err
			},
			"alone": func(r storage.TriggerRequest) error {
				tx, err := s.watcher().Begin(t.Context())
				if err == nil {
					_, err = s.a.TriggerTx(t.Context(), tx, by, r)
				}
				if err == nil {
					err = tx.Commit(t.Context())
				}
				return err
			},
		} {
			r.Key = name + " in " + way
			if err := trigger(r); err != nil {
				t.Fatalf("%s: %v", r.Key, err)
			}
			rows[way] = query[string](s, `
SELECT jsonb_pretty(jsonb_build_object(
    'run', to_jsonb(r) - '{id,key,created_at,scheduled_at,start_by}'::text[],
    'wait', to_jsonb(w) - '{run,since}'::text[], 'want', to_jsonb(o) - '{run,since}'::text[],
    'audit', to_jsonb(a) - '{id,at,detail}'::text[],
    'detail', a.detail - '{run,key,scheduled_at}'::text[],
    'times', jsonb_build_array(w.since = greatest(r.scheduled_at, r.created_at),
        w.since = o.since, r.start_by - w.since, a.detail ->> 'key' = r.key,
        (a.detail ->> 'scheduled_at')::timestamptz = r.scheduled_at,
        CASE WHEN $2 = 'delay' THEN round(extract(epoch FROM r.scheduled_at - r.created_at) / 60)
            WHEN $2 <> 'now' THEN 0 END,
        CASE WHEN $2 <> ALL('{delay,now,limit,params}') THEN a.detail -> 'scheduled_at' END,
        a.at BETWEEN r.created_at AND clock_timestamp(),
        EXISTS (SELECT FROM holdfast.audit_unsealed u WHERE (u.entry, u.at) = (a.id, a.at)))))
FROM holdfast.runs r JOIN holdfast.waits w ON w.run = r.id JOIN holdfast.wants o ON o.run = r.id
JOIN holdfast.audit a ON a.detail ->> 'run' = r.id::text
WHERE r.key = $1`, r.Key, name)
		}
		if rows["a batch"] != rows["alone"] {
			t.Errorf("%s: a batch wrote %s\nalone it is %s", name, rows["a batch"], rows["alone"])
		}
	}
}
