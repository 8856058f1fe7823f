//go:build race

package jobs_test

const raceDetector = true
