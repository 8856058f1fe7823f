package storage

import (
	"context"
	"time"
)

// SignOuts ends the sign-ins of users of the page. Each user has a generation, which grows with
// each sign-out. A sign-in is valid if its generation is at least that of its user. The generations
// of a store hold for all replicas. Methods may be called concurrently.
type SignOuts interface {
	// Generations returns the generation of each user who has signed out. Other users have the
	// generation 0. Generations may leave out a user if the last call of EndSignIns for this user
	// is longer ago than its argument keep.
	Generations(ctx context.Context) (map[string]int64, error)
	// EndSignIns ends the sign-ins of a user, and returns the new generation. It is larger than all
	// generations that the user has had.
	EndSignIns(ctx context.Context, user string, keep time.Duration) (int64, error)
}
