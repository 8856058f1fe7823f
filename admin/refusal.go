package admin

// Refusal is the kind of a refused action, for programs. Texts of refusals may change, and kinds do
// not.
type Refusal string

// The kinds of refusals.
const (
	RefusedPermission    Refusal = "permission"     // the sender lacks a permission
	RefusedInput         Refusal = "bad_input"      // a field or a header is invalid
	RefusedParams        Refusal = "bad_params"     // the params do not fit the job
	RefusedJob           Refusal = "bad_job"        // the text of a job has mistakes
	RefusedConfig        Refusal = "bad_config"     // the configuration of the replica has mistakes
	RefusedPaused        Refusal = "paused"         // a pause covers the job
	RefusedBusy          Refusal = "busy"           // something blocks a run that must not wait
	RefusedInTransaction Refusal = "in_transaction" // the holder has an open transaction
	RefusedKeyUsed       Refusal = "key_used"       // the key belongs to another request
	RefusedDependents    Refusal = "has_dependents" // other added jobs depend on the job
	RefusedFromConfig    Refusal = "from_config"    // the job comes from the configuration
	RefusedConflict      Refusal = "conflict"       // the state is not what the sender has seen
	RefusedNotFound      Refusal = "not_found"      // the object does not exist
	RefusedUnsupported   Refusal = "unsupported"    // this replica does not do it
)

// Refusals returns all kinds of refusals.
func Refusals() []Refusal {
	return []Refusal{RefusedPermission, RefusedInput, RefusedParams, RefusedJob, RefusedConfig,
		RefusedPaused, RefusedBusy, RefusedInTransaction, RefusedKeyUsed, RefusedDependents,
		RefusedFromConfig, RefusedConflict, RefusedNotFound, RefusedUnsupported}
}
