package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/lockingtest"
)

func TestGrantsAnswerAsTheModel(t *testing.T) {
	s := newStage(t)
	lockingtest.RunGrantsModel(t,
		lockingtest.GrantsFixture{Connect: func(*testing.T) locking.Grants { return s.a.Grants() }},
		false)
}
