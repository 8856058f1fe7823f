package jobs

import "time"

// pace is how often a replica looks for what it is not told of. Nothing but
// delays follows from it; a simulation of a year stretches it.
type pace struct {
	sleep    time.Duration // the dispatcher's longest, so that a jump of the clock is seen
	adopt    time.Duration // between looks for waiting runs
	misfires time.Duration // between looks for scheduled times that nobody started
	// between sweeps of expired sessions, where heartbeats are no more frequent
	sweep time.Duration
	lists time.Duration // between looks at what the others have unlike this replica
	// between questions for orders: acts are obeyed within a second also where nobody is heard
	controlState time.Duration
}

func usualPace() pace {
	return pace{sleep: time.Minute, adopt: time.Second, misfires: 5 * time.Second,
		sweep: 3 * time.Second, lists: 5 * time.Second, controlState: 750 * time.Millisecond}
}
