package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
)

func TestGrantsMatchTheModel(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	lockingtest.RunGrantsModel(t,
		lockingtest.GrantsFixture{Connect: func(*testing.T) locking.Grants { return s.a.Grants() }},
		false)
}
