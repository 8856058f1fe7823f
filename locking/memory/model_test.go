package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast/internal/test/lockingtest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

func TestGrantsMatchTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grants := memory.NewGrants()
		lockingtest.RunGrantsModel(t,
			lockingtest.GrantsFixture{Connect: func(*testing.T) locking.Grants { return grants }},
			true)
	})
}
