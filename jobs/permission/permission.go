package permission

// Permission is what an identity may do with a target.
type Permission string

// The permissions.
const (
	View        Permission = "view"         // read jobs, runs, locks, replicas and the audit log
	ViewOutput  Permission = "view_output"  // read output, results and saved state of runs
	ViewParams  Permission = "view_params"  // read the params that triggers gave to runs
	ViewMetrics Permission = "view_metrics" // read the metrics of a replica
	Trigger     Permission = "trigger"      // add runs of a job, and repeat deliveries of webhooks
	Pause       Permission = "pause"        // pause and resume
	Cancel      Permission = "cancel"       // cancel runs and backfills of a job
	Release     Permission = "release"      // release locks by force
	Drain       Permission = "drain"        // drain replicas, and remove lost ones
	EditJobs    Permission = "edit_jobs"    // add, change and remove jobs; read params and specs
	Reload      Permission = "reload"       // make a replica read its configuration again
)

// All returns all permissions.
func All() []Permission {
	return []Permission{View, ViewOutput, ViewParams, ViewMetrics, Trigger, Pause, Cancel, Release,
		Drain, EditJobs, Reload}
}

// Kind is the kind of a target.
type Kind string

// The kinds of targets.
const (
	Everything Kind = "everything" // the whole cluster
	// Something is for requests whose target is not known yet. An identity has a permission on it
	// if it has the permission on at least one target of any kind.
	Something Kind = "something"
	Job       Kind = "job"
	Group     Kind = "group"
	Resource  Kind = "resource"
)

// Target is what a permission is about.
type Target struct {
	Kind  Kind
	Name  string // of a job, a group or a resource, such as public/orders
	Group string // of a job; "" if it has none, or if it is not known
}

// String describes the target.
func (t Target) String() string {
	switch t.Kind {
	case Everything, Something:
		return string(t.Kind)
	}
	return string(t.Kind) + " " + t.Name
}
