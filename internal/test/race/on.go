//go:build race

package race

// Enabled reports whether this binary has the race detector.
const Enabled = true
