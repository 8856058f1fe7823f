// Command postgres is a small program that embeds Holdfast with PostgreSQL. The test of package
// weight lists what it links.
package main

import (
	"context"
	"log"
	"os"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func main() {
	hello := holdfast.Job[struct{}]{Name: "hello", Schedule: schedule.Cron("* * * * *"),
		Run: func(context.Context, *jobs.Run, struct{}) error { return nil }}
	replica, err := holdfast.New(holdfast.WithPostgres(os.Getenv("DATABASE_URL")),
		holdfast.WithJobs(hello))
	if err == nil {
		err = replica.Run(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
}
