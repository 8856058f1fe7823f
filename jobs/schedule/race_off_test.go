//go:build !race

package schedule_test

// slowdown is how much longer the race detector makes things take.
const slowdown = 1
