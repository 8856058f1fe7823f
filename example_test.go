package holdfast_test

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// RefreshParams are the params of the job.
type RefreshParams struct {
	Region string `json:"region"`
}

func refreshSales(ctx context.Context, run *jobs.Run, p RefreshParams) error {
	// Commits only if the run still has its claim. The same commit records its success.
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE regions SET sales = "+
			"(SELECT sum(amount) FROM sales WHERE region = $1) WHERE name = $1", p.Region)
		return err
	})
}

func Example() {
	cli.Main(holdfast.WithJobs(holdfast.Job[RefreshParams]{
		Name:     "refresh-sales-north",
		Schedule: schedule.Cron("*/5 * * * *"),
		Writes:   []string{"regions"},
		Reads:    []string{"sales"},
		Timeout:  time.Minute,
		Params:   RefreshParams{Region: "north"},
		Run:      refreshSales,
	}))
}
