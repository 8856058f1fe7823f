// Package charts lays out the pictures of the pages: timelines, outcomes and durations. It also has
// the window of time that a page shows.
package charts
