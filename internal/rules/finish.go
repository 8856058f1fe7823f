package rules

import (
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// CancelInstead returns the request that ends the run of a claim that is given back, because the
// actor has asked to cancel it. The request q itself is refused. The run keeps its replica.
func CancelInstead(q storage.FinishRequest, actor string) storage.FinishRequest {
	return storage.FinishRequest{Run: q.Run, Token: q.Token, State: jobs.Cancelled,
		Reason: reasons.Cancelled, Detail: "cancelled by " + actor, GivenBack: true}
}
