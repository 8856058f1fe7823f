// Package race tells tests whether they run with the race detector, which takes several times the
// processor time.
package race
