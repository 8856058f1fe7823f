package holdfast_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
)

// RefreshParams are the params of a job in the YAML file.
type RefreshParams struct {
	Region string `json:"region"`
}

func refreshSales(ctx context.Context, run *jobs.Run, p RefreshParams) error {
	// Commits only if the run still has its claim, and records its success with it.
	return postgres.CompleteInTx(ctx, run, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE regions SET sales = "+
			"(SELECT sum(amount) FROM sales WHERE region = $1) WHERE name = $1", p.Region)
		return err
	})
}

func Example() {
	holdfast.Main(jobs.Handle("refresh-sales", refreshSales))
}
