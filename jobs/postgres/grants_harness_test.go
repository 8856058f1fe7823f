package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// locks opens a session for locks.
func (s *harness) locks(store *Store, replica string) uuid.UUID {
	s.t.Helper()
	id := uuid.New()
	if err := store.Grants().OpenSession(s.t.Context(),
		locking.Session{ID: id, Replica: replica, Version: "test", TTL: time.Hour}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// lockRequest requests a lock on keys such as "path:a/b". A key is exclusive unless it begins with
// "shared " or with "slot ", which is one of two slots.
func lockRequest(t testing.TB, keys ...string) locking.GrantRequest {
	t.Helper()
	var requests []locking.Request
	for _, key := range keys {
		r := locking.Request{Mode: locking.Exclusive}
		if rest, ok := cutWord(key, "shared "); ok {
			r.Mode, key = locking.Shared, rest
		} else if rest, ok := cutWord(key, "slot "); ok {
			r.Mode, r.Slots, key = locking.Slotted, 2, rest
		}
		var err error
		if r.Resource, err = locking.ParseKey(key); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, r)
	}
	requests, err := locking.Normalize(requests)
	if err != nil {
		t.Fatal(err)
	}
	return locking.GrantRequest{ID: uuid.New(),
		Owner: locking.Owner{Replica: "r", Job: "program", Run: "7"}, Requests: requests,
		Reserve: time.Hour}
}

func cutWord(text, word string) (string, bool) {
	if len(text) > len(word) && text[:len(word)] == word {
		return text[len(word):], true
	}
	return text, false
}

// waits makes the request wait if it is refused.
func waits(r locking.GrantRequest) locking.GrantRequest {
	r.Wait = true
	return r
}

type granted struct {
	results []locking.GrantResult
	err     error
}

// grant begins a grant in the background.
func (s *harness) grant(store *Store, session uuid.UUID,
	requests ...locking.GrantRequest) <-chan granted {
	done := make(chan granted, 1)
	go func() {
		results, err := store.Grants().Grant(s.t.Context(), session, requests)
		done <- granted{results, err}
	}()
	return done
}

// tokens waits for a grant and returns the tokens, 0 for a refused request.
func (s *harness) tokens(done <-chan granted) []locking.Token {
	s.t.Helper()
	got := <-done
	if got.err != nil {
		s.t.Fatal(got.err)
	}
	var tokens []locking.Token
	for _, r := range got.results {
		if (r.Token == 0) == (r.Blocker == nil) {
			s.t.Fatalf("neither granted nor refused, or both: %+v", r)
		}
		tokens = append(tokens, r.Token)
	}
	return tokens
}

// hold grants one lock and returns its token.
func (s *harness) hold(store *Store, session uuid.UUID, r locking.GrantRequest) locking.Token {
	s.t.Helper()
	token := s.tokens(s.grant(store, session, r))[0]
	if token == 0 {
		s.t.Fatalf("lock on %v was refused", r.Requests)
	}
	return token
}

// refused requests one lock, which must be refused, and returns its blocker.
func (s *harness) refused(store *Store, session uuid.UUID,
	r locking.GrantRequest) locking.GrantBlocker {
	s.t.Helper()
	got := <-s.grant(store, session, r)
	if got.err != nil || got.results[0].Blocker == nil {
		s.t.Fatalf("lock on %v: %+v, %v, want it to be refused", r.Requests, got.results,
			got.err)
	}
	return *got.results[0].Blocker
}

func (s *harness) release(store *Store, tokens ...locking.Token) {
	s.t.Helper()
	released, err := store.Grants().Release(s.t.Context(), tokens)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, result := range released {
		if result != locking.ReleaseDone {
			s.t.Fatalf("release of claim %d: got %v, want it done", tokens[i], result)
		}
	}
}

// left fails the test unless the tables of claims, grants, waits and wants have these numbers of
// rows.
func (s *harness) left(claims, grants, waits, wants int) {
	s.t.Helper()
	for _, table := range []struct {
		name string
		want int
	}{{"claims", claims}, {"grants", grants}, {"waits", waits}, {"wants", wants}} {
		if n := query[int](s, "SELECT count(*) FROM holdfast."+table.name); n != table.want {
			s.t.Errorf("%d rows in %s, want %d", n, table.name, table.want)
		}
	}
}
