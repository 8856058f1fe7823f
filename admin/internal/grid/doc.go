// Package grid is the page of jobs by scheduled time: one row for each job, and one column for each
// part of the shown time. A cell has the outcomes of the runs that were scheduled in its column.
package grid
