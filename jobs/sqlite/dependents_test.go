package sqlite_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestPausedDependentsHaveNoOpenFirings pauses the dependents by each kind of pause.
func TestPausedDependentsHaveNoOpenFirings(t *testing.T) {
	s := open(t)
	session := uuid.New()
	if err := s.Open(t.Context(),
		storage.Session{ID: session, Replica: "a", TTL: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), session,
		[]storage.Definition{{Name: "f", Hash: "h"}, {Name: "one", Hash: "h"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, name string
		listed     bool
	}{{"job", "f", false}, {"group", "night", false}, {"all", "", false}, {"job", "one", true},
		{"group", "f", true}} {
		if _, err := s.Writer().Exec(
			`INSERT INTO holdfast_pauses (id, kind, name, paused_at, paused_by, reason) VALUES ('p', ?, ?, 1, 'me', '')`, c.kind, c.name); err != nil {
			t.Fatal(err)
		}
		for _, over := range []bool{false, true} {
			if over {
				if _, err := s.Writer().Exec(
					`UPDATE holdfast_pauses SET resumed_at = 2`); err != nil {
					t.Fatal(err)
				}
			}
			for group, listed := range map[string]bool{"night": c.listed || over,
				"": c.listed || over || c.kind == "group"} {
				openFirings, err := s.OpenFirings(t.Context(),
					[]storage.Dependent{{Job: "f", Version: 1, Group: group,
						After: []string{"one"}}})
				if _, there := openFirings["f"]; err != nil || there != listed {
					t.Errorf("%s %s paused, over %v, in group %q: got %v, %v, want %v", c.kind,
						c.name, over, group, there, err, listed)
				}
			}
		}
		if _, err := s.Writer().Exec(`DELETE FROM holdfast_pauses`); err != nil {
			t.Fatal(err)
		}
	}
}
