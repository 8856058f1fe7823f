package engine

import "time"

// pollIntervals holds the intervals of a replica's polls. They affect only delays. A simulation of
// a year lengthens them.
type pollIntervals struct {
	// the longest sleep of the dispatcher, so that it notices a jump of the clock
	sleep    time.Duration
	adopt    time.Duration // between adoptions of waiting runs
	misfires time.Duration // between checks for misfires
	// between sweeps of expired sessions, unless heartbeats are more frequent or one expires before
	sweep time.Duration
	seal  time.Duration // between searches for unsealed entries of the audit log
	locks time.Duration // the longest time between looks at a lock for which firings wait
	// between polls of the control state, so that actions are obeyed within a second without Listen
	controlState time.Duration
}

func defaultIntervals() *pollIntervals {
	return &pollIntervals{sleep: time.Minute, adopt: time.Second, misfires: 5 * time.Second,
		sweep: 3 * time.Second, seal: 5 * time.Second,
		locks: 100 * time.Millisecond, controlState: 750 * time.Millisecond}
}
