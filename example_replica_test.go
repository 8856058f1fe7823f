package holdfast_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// CleanParams are the params of the job.
type CleanParams struct {
	Days int `json:"days"` // how long rows are kept
}

func cleanSessions(ctx context.Context, run *jobs.Run, p CleanParams) error {
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		deleted, err := tx.Exec(ctx, "DELETE FROM sessions WHERE age_in_days > $1", p.Days)
		run.Log().Info().Int64("rows", deleted).Msg("sessions deleted")
		return err
	})
}

func serve(ctx context.Context) error {
	replica, err := holdfast.New(
		holdfast.WithPostgres(os.Getenv("DATABASE_URL")), // or WithSQLite(sqlite.Driver, "a.db")
		holdfast.WithPage(admin.Page, "127.0.0.1:8080"),
		holdfast.WithSlog(slog.Default()),
		holdfast.WithJobs(holdfast.Job[CleanParams]{
			Name:     "clean-sessions",
			Schedule: schedule.Cron("0 3 * * *"),
			Timezone: "Europe/Berlin",
			Writes:   []string{"sessions"},
			Params:   CleanParams{Days: 30},
			Run:      cleanSessions,
		}),
	)
	if err != nil {
		return err // every mistake in the options and in the jobs
	}
	if err := replica.Open(ctx); err != nil {
		return err // the database or the address of the page
	}
	return replica.Run(ctx) // until ctx ends, then it stops gracefully
}

func Example_replica() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		slog.Error("the service has failed", "error", err)
		os.Exit(1)
	}
}
