// Package cluster reads the state of the cluster for the pages: replicas, problems, pauses,
// failures, and the overview of them all. It knows nothing of HTTP.
package cluster
