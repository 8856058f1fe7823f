package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAddedJobsAgreeWithTheConfiguration adds jobs to a replica that runs. They are checked against
// the jobs of its configuration, also after a reload.
func TestAddedJobsAgreeWithTheConfiguration(t *testing.T) {
	file := filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
	config := func(slots int) *configs.Config {
		c, err := configs.Parse("holdfast.yaml", fmt.Appendf(nil, `
database: {url: "sqlite://%s"}
replica: {name: a}
admin: {listen: ""}
jobs:
- {name: nightly, handler: work, schedule: "0 2 * * *", resources: [{name: api, slots: %d}]}
`, file, slots))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	replica, err := holdfast.New(holdfast.WithDriver(sqlite.Driver),
		holdfast.WithConfig(config(2)),
		holdfast.WithHandlers(jobs.Handle("work",
			func(context.Context, *jobs.Run, struct{}) error { return nil })),
		holdfast.WithLog(zerolog.Nop(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	for replica.Ready(t.Context()) != nil {
		time.Sleep(time.Millisecond) // there is no event to wait for
	}
	put := func(after string, slots int) error {
		_, err := replica.PutJob(t.Context(), storage.Action{Actor: "ann", Via: "go"},
			holdfast.Job[struct{}]{Name: "added", Handler: "work", Schedule: schedule.After(after),
				Resources: []configs.Resource{{Name: "api", Slots: slots}}}, operations.AnyVersion)
		return err
	}
	for slots := 2; slots <= 3; slots++ {
		if slots == 3 {
			err := replica.Reload(func() (*configs.Config, error) { return config(slots), nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := put("nightly", slots); err != nil {
			t.Errorf("a job with %d slots: %v", slots, err)
		}
		for want, err := range map[string]error{
			"as in job nightly":     put("nightly", slots+1),
			`unknown job "nowhere"`: put("nowhere", slots),
		} {
			if refused := (*operations.SpecError)(nil); !errors.As(err, &refused) ||
				!strings.Contains(fmt.Sprint(refused.Problems), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}
