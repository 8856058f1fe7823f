//go:build race

package speedtest

// slowdown is how much longer the race detector makes things take.
const slowdown = 20
