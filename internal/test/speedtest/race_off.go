//go:build !race

package speedtest

// slowdown is the factor by which the race detector slows tests down.
const slowdown = 1
