package postgres

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// named reports whether the job is among the added ones.
func named(added []storage.Spec, job string) bool {
	return slices.ContainsFunc(added, func(s storage.Spec) bool { return s.Job == job })
}

// One operator removes a job while another adds a job that depends on it. Each checks the existing
// jobs, so the second must see the change of the first.
func TestRemovalSeesAConcurrentAddition(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	first, err := s.a.PutSpec(t.Context(), operator, storage.Spec{Job: "first", Text: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	resume := s.pause("a", "holdfast.specs", "INSERT", "NEW.job = 'dependent'")
	added, removed := make(chan error, 1), make(chan error, 1)
	go func() { added <- s.addDependent(s.a) }()
	awaitWaiting(s, "a", added) // has checked, not written
	go func() { removed <- s.removeFirst(s.b, first.Version) }()
	awaitWaiting(s, "b", removed)
	resume()
	if err := <-added; err != nil {
		t.Error(err)
	}
	if err := <-removed; !errors.Is(err, storage.ErrHasDependents) {
		t.Errorf("removal of a job on which one depends: %v", err)
	}
}

func TestAdditionSeesAConcurrentRemoval(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	first, err := s.a.PutSpec(t.Context(), operator, storage.Spec{Job: "first", Text: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	resume := s.pause("a", "holdfast.specs", "UPDATE", "NEW.removed")
	added, removed := make(chan error, 1), make(chan error, 1)
	go func() { removed <- s.removeFirst(s.a, first.Version) }()
	awaitWaiting(s, "a", removed) // has checked, not written
	go func() { added <- s.addDependent(s.b) }()
	awaitWaiting(s, "b", added)
	resume()
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if err := <-added; !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("addition of a job that depends on one that was removed: %v", err)
	}
}

func (s *harness) addDependent(store *Store) error {
	spec := storage.Spec{Job: "dependent", Text: []byte(`{}`)}
	_, err := store.PutSpec(s.t.Context(), operator, spec, func(added []storage.Spec) error {
		if !named(added, "first") {
			return storage.ErrNotFound
		}
		return nil
	})
	return err
}

func (s *harness) removeFirst(store *Store, version int64) error {
	return store.RemoveSpec(s.t.Context(), operator, "first", version,
		func(added []storage.Spec) error {
			if named(added, "dependent") {
				return storage.ErrHasDependents
			}
			return nil
		})
}
