// Package records queries runs and puts them into the form that all replicas show: times in UTC,
// and display names of resources.
package records
