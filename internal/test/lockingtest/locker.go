package lockingtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func lockerTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"AllOrNothing":           testAllOrNothing,
		"Repetitions":            testRepetitions,
		"Release":                testRelease,
		"StaleRelease":           testStaleRelease,
		"ReleaseOfVanished":      testReleaseOfVanishedLock,
		"EndedContext":           testLockWithEndedContext,
		"ForeignValues":          testForeignValues,
		"LongNames":              testLongNames,
		"Namespaces":             testNamespaces,
		"Modes":                  testModes,
		"CallerDeadlock":         testStandAlone,
		"Inspect":                testInspect,
		"Full":                   testFull,
		"Unavailable":            testUnavailable,
		"AcquireWaits":           testAcquireWaits,
		"AcquireGivesUp":         testAcquireGivesUp,
		"AcquireEndsWithContext": testAcquireEndsWithContext,
		"OwnersAreFreeText":      testOwnersAreFreeText,
		"OwnersTogether":         testOwnersTogether,
		"OwnersTogetherFail":     testOwnersTogetherFail,
	}
}

func testAllOrNothing(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	blocker := b.lock(t, "blocker", "m")
	_, err := a.TryAcquire(t.Context(), a.owner("job"), exclusive(t, "z", "m", "a"))
	checkHeld(t, err, "m", "blocker")
	if want := "path:m is held by job blocker (run run-of-blocker) on replica-2"; err == nil ||
		err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	check(t, "release", blocker.Release(t.Context()), nil)
	s.checkEmpty(t)
	check(t, "release", a.lock(t, "job", "z", "m", "a").Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testRepetitions(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	lock := a.lock(t, "job", "b", "a", "/b/", "b")
	if got, want := lock.Requests(), exclusive(t, "a", "b"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	check(t, "release", lock.Release(t.Context()), nil)
	empty, err := a.TryAcquire(t.Context(), a.owner("job"), nil)
	if err != nil {
		t.Fatalf("lock of no resources: %v", err)
	}
	check(t, "release of nothing", empty.Release(t.Context()), nil)
}

func testRelease(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	lock, err := a.TryAcquire(ctx, a.owner("job"), exclusive(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if lock.Context().Err() != nil || lock.Context().Value(key{}) != "value" {
		t.Error("the lock's context ends with the caller's, or does not have its values")
	}
	check(t, "release under an ended context", lock.Release(ctx), nil)
	check(t, "cause", context.Cause(lock.Context()), locking.ErrReleased)
	s.checkEmpty(t)
	other := a.lock(t, "other", "a")
	check(t, "second release", lock.Release(t.Context()), nil)
	_, err = a.TryAcquire(t.Context(), a.owner("third"), exclusive(t, "a"))
	checkHeld(t, err, "a", "other")
	check(t, "release", other.Release(t.Context()), nil)
}

func testStaleRelease(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	stale := a.lock(t, "stale", "a", "b")
	s.vanish(t, "b")
	successor := b.lock(t, "successor", "b")
	err := stale.Release(t.Context())
	checkLost(t, err, locking.LossTaken)
	if lost := new(locking.LostError); !errors.As(err, &lost) || lost.Holder.Job != "successor" {
		t.Errorf("the error does not name the holder: %v", err)
	}
	if again := stale.Release(t.Context()); !errors.Is(again, err) {
		t.Errorf("second release: %v, want %v", again, err)
	}
	_, err = a.TryAcquire(t.Context(), a.owner("third"), exclusive(t, "b"))
	checkHeld(t, err, "b", "successor")
	check(t, "the successor's release", successor.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testReleaseOfVanishedLock(t *testing.T, f Fixture) {
	s := newStore(t, f)
	lock := s.join(t, "replica-1").lock(t, "job", "a", "b")
	s.vanish(t, "a")
	checkLost(t, lock.Release(t.Context()), locking.LossVanished)
	s.checkEmpty(t)
}

func testLockWithEndedContext(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, err := a.TryAcquire(ctx, a.owner("job"), exclusive(t, "a"))
	check(t, "lock", err, stop)
	s.checkEmpty(t)
}

func testForeignValues(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	values := []string{"", "garbage", "{}",
		`{"nonce":"x","resource":"path:b","job":"other resource"}`, `{"nonce":7}`, "\x00\xff"}
	for _, value := range values {
		lock := a.lock(t, "job", "a")
		key := s.replace(t, "a", value)
		checkLost(t, lock.Release(t.Context()), locking.LossTaken)
		_, err := a.TryAcquire(t.Context(), a.owner("job"), exclusive(t, "a"))
		checkHeld(t, err, "a", "")
		if err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("got holder %v of %q", value, err)
		}
		checkValue(t, s, key, value)
		check(t, "delete", s.Delete(t.Context(), key, []byte(value)), nil)
	}
}

func testLongNames(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	names := []string{
		strings.Repeat("n", 1024), strings.Repeat("n", 1023) + "m", "with space", "with\u00a0space",
		"größe", `quote"quote`,
	}
	lock := a.lock(t, "job", names...)
	if got := len(s.keys.all()); got != len(names) {
		t.Errorf("%d keys for %d names", got, len(names))
	}
	for _, name := range names {
		_, err := a.TryAcquire(t.Context(), a.owner("other"), exclusive(t, name))
		checkHeld(t, err, name, "job")
	}
	check(t, "release", lock.Release(t.Context()), nil)
	s.checkEmpty(t)
}

func testNamespaces(t *testing.T, f Fixture) {
	s := newStore(t, f)
	staging := s.join(t, "replica-1", func(o *locking.Options) { o.Namespace = "staging" })
	production := s.join(t, "replica-1", func(o *locking.Options) { o.Namespace = "production" })
	for _, name := range []string{"a", strings.Repeat("n", 1000)} {
		one, two := staging.lock(t, "job", name), production.lock(t, "job", name)
		check(t, "release", one.Release(t.Context()), nil)
		check(t, "release", two.Release(t.Context()), nil)
	}
}

func testModes(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1", restoring)
	slot, err := locking.Slot("api")
	check(t, "slot", err, nil)
	job, err := locking.Job("sales")
	check(t, "job", err, nil)
	requests := []locking.Request{
		{Resource: path(t, "read"), Mode: locking.Shared},
		{Resource: slot, Mode: locking.Slotted, Slots: 3},
		{Resource: job, Mode: locking.Exclusive},
		{Resource: path(t, "written"), Mode: locking.Exclusive},
	}
	lock, err := a.TryAcquire(t.Context(), a.owner("job"), requests)
	if err != nil {
		t.Fatal(err)
	}
	if len(lock.Requests()) != 4 {
		t.Errorf("got requests %v", lock.Requests())
	}
	if len(s.keys.all()) != 1 {
		t.Errorf("got keys %q, want only the key of the exclusive lock", s.keys.all())
	}
	check(t, "release", lock.Release(t.Context()), nil)
}

func testStandAlone(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	slot, err := locking.Slot("api")
	check(t, "slot", err, nil)
	for _, refused := range []locking.Request{
		{Resource: path(t, "read"), Mode: locking.Shared},
		{Resource: slot, Mode: locking.Slotted, Slots: 3},
	} {
		_, err := a.TryAcquire(t.Context(), a.owner("job"), append(exclusive(t, "a"), refused))
		var unsupported *locking.UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Request != refused ||
			!errors.Is(err, locking.ErrUnsupported) {
			t.Errorf("%v: got %v", refused, err)
		}
	}
	job, err := locking.Job("sales")
	check(t, "job", err, nil)
	own := []locking.Request{{Resource: job, Mode: locking.Exclusive}}
	if _, err := a.TryAcquire(t.Context(), a.owner("job"), own); err != nil {
		t.Fatal(err)
	}
	if _, err := a.TryAcquire(t.Context(), a.owner("job"), own); !errors.Is(err, locking.ErrHeld) {
		t.Errorf("the own name of a job was locked twice: %v", err)
	}
}

func testInspect(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	before := time.Now()
	lock := a.lock(t, "job", "a", "b")
	long := strings.Repeat("n", 1000)
	other := b.lock(t, "other", long)
	s.replace(t, "b", "garbage")
	found, err := b.Inspect(t.Context(),
		[]locking.Resource{path(t, "a"), path(t, "b"), path(t, "c"), path(t, long)})
	if err != nil || len(found) != 3 {
		t.Fatalf("got holders %v (%v), want 3", found, err)
	}
	holder := found[path(t, "a")]
	if holder.Owner != a.owner("job") || holder.Since.Before(before.Add(-time.Second)) ||
		holder.Since.After(time.Now()) {
		t.Errorf("got holder %+v of a", holder)
	}
	if found[path(t, "b")].Known() || found[path(t, long)].Job != "other" {
		t.Errorf("got %v", found)
	}
	checkLost(t, lock.Release(t.Context()), locking.LossTaken)
	check(t, "release", other.Release(t.Context()), nil)
	b.faults.Always(Unavailable)
	_, err = b.Inspect(t.Context(), []locking.Resource{path(t, "a")})
	check(t, "inspection", err, locking.ErrUnavailable)
}

func testFull(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.faults.Choose(func(op Op, key string) Fault {
		if op == OpAdd && strings.HasSuffix(key, "c") {
			return Full
		}
		return None
	})
	_, err := a.TryAcquire(t.Context(), a.owner("job"), exclusive(t, "a", "b", "c", "d"))
	check(t, "lock", err, locking.ErrFull)
	if errors.Is(err, locking.ErrHeld) || errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("got %v, want only ErrFull", err)
	}
	s.checkEmpty(t)
}

func testUnavailable(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.faults.Choose(func(op Op, key string) Fault {
		if op == OpAdd && strings.HasSuffix(key, "b") {
			return Unavailable
		}
		return None
	})
	_, err := a.TryAcquire(t.Context(), a.owner("job"), exclusive(t, "a", "b"))
	check(t, "lock", err, locking.ErrUnavailable)
	if errors.Is(err, locking.ErrHeld) || errors.Is(err, locking.ErrUnclear) {
		t.Errorf("got %v, want only ErrUnavailable", err)
	}
	s.checkEmpty(t)
}

func testAcquireWaits(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	blocker := a.lock(t, "blocker", "m")
	acquired := make(chan error, 1)
	go func() {
		lock, err := b.Acquire(t.Context(), b.owner("job"), exclusive(t, "a", "m"),
			retry.Policy{Attempts: 10_000, Delay: time.Millisecond})
		if err == nil {
			err = lock.Release(context.Background())
		}
		acquired <- err
	}()
	await(t, "polling", func() bool { return b.faults.Count(OpGet) > 3 })
	if adds := b.faults.Count(OpAdd); adds > 2 {
		t.Errorf("%d adds while the blocker holds its lock", adds)
	}
	select {
	case err := <-acquired:
		t.Fatalf("acquire did not wait: %v", err)
	default:
	}
	check(t, "release", blocker.Release(t.Context()), nil)
	check(t, "lock", <-acquired, nil)
	s.checkEmpty(t)
}

func testAcquireGivesUp(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a, b := s.join(t, "replica-1"), s.join(t, "replica-2")
	a.lock(t, "blocker", "m")
	_, err := b.Acquire(t.Context(), b.owner("job"), exclusive(t, "a", "m"),
		retry.Policy{Attempts: 3, Delay: time.Millisecond})
	checkHeld(t, err, "m", "blocker")
	var exhausted *retry.ExhaustedError
	if !errors.As(err, &exhausted) || exhausted.Attempts != 3 ||
		exhausted.Waited < 2*time.Millisecond {
		t.Errorf("tries or time missing: %+v", exhausted)
	}
	for _, word := range []string{"3 tries", "path:m", "blocker", "replica-1"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in %v", word, err)
		}
	}
	b.faults.Always(Unavailable)
	_, err = b.Acquire(t.Context(), b.owner("job"), exclusive(t, "x"),
		retry.Policy{Attempts: 3, Delay: time.Hour})
	check(t, "lock without a store", err, locking.ErrUnavailable)
}

func testAcquireEndsWithContext(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	a.lock(t, "blocker", "m")
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	acquired := make(chan error, 1)
	go func() {
		_, err := a.Acquire(ctx, a.owner("job"), exclusive(t, "m"),
			retry.Policy{Attempts: 2, Delay: time.Hour})
		acquired <- err
	}()
	await(t, "first try", func() bool { return a.faults.Count(OpAdd) > 1 })
	cancel(stop)
	err := <-acquired
	check(t, "lock", err, stop)
}

func testOwnersAreFreeText(t *testing.T, f Fixture) {
	s := newStore(t, f)
	a := s.join(t, "replica-1")
	owner := locking.Owner{Replica: strings.Repeat("ü", 3000), Job: "a\x00b\xff", Run: `"<&>`}
	lock, err := a.TryAcquire(t.Context(), owner, exclusive(t, strings.Repeat(`"`, 1024)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.TryAcquire(t.Context(), a.owner("other"), lock.Requests())
	var held *locking.HeldError
	if !errors.As(err, &held) {
		t.Fatal(err)
	}
	if got := held.Holder.Owner; got.Replica != strings.Repeat("ü", 100) || got.Job != "a b " ||
		got.Run != owner.Run {
		t.Errorf("got holder %q", got)
	}
	check(t, "release", lock.Release(t.Context()), nil)
}
