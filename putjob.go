package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// PutJob adds a job at run time, or changes an added one. version is 0 for a new job, the version
// of the added job to change, or operations.AnyVersion for both cases. Operations.PutJob does the
// same with the text of a job. The job is stored, and any replica can run it. So it names its
// handler in Handler, which all replicas must have, and cannot have a Run. Mistakes are returned as
// *operations.SpecError. If a field of the job lacks its value, such as Schedule, PutJob does not
// look for other mistakes, such as an unknown handler.
func (r *Replica) PutJob(ctx context.Context, by storage.Action, job AnyJob,
	version int64) (storage.Spec, error) {
	ops, err := r.operations()
	if err != nil {
		return storage.Spec{}, fmt.Errorf("put job: %w", err)
	}
	built := job.build()
	if built.handler != nil {
		built.Job.Handler = ""
		built.mistakes = append(built.mistakes, configs.Mistake{Key: "handler",
			Message: "found a function in Run, expected the name of a handler in Handler: the " +
				"job is stored, and other replicas do not have the function"})
	}
	if len(built.mistakes) > 0 {
		refused := &operations.SpecError{}
		for _, m := range built.mistakes {
			refused.Problems = append(refused.Problems,
				operations.SpecProblem{Key: m.Key, Message: m.Message})
		}
		return storage.Spec{}, refused
	}
	text, err := configs.NewBuiltJob(built.Job).Text()
	if err != nil {
		return storage.Spec{}, err
	}
	return ops.PutJob(ctx, by, text, version)
}
