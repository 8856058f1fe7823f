package storage

import (
	"context"
	"time"
)

// SignOuts ends the sign-ins of users of the page, on all replicas. Each user has a generation,
// which grows with each sign-out. A sign-in is valid if its generation is at least that of its
// user.
type SignOuts interface {
	// Generations returns the generations of users who have signed out. It may leave out a user if
	// the time keep of the last EndSignIns has passed.
	Generations(ctx context.Context) (map[string]int64, error)
	// EndSignIns ends the sign-ins of a user with a smaller generation than the given one, which
	// must be positive. If the user has a larger generation, it changes nothing. So a call may be
	// repeated.
	EndSignIns(ctx context.Context, user string, generation int64, keep time.Duration) error
}
