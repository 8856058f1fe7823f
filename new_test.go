package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// TestNewRefusesUnparsedConfig checks that New refuses jobs that no parser has completed. Such a
// job would run without its locks, or never.
func TestNewRefusesUnparsedConfig(t *testing.T) {
	handler := jobs.Handle("greet", func(context.Context, *jobs.Run, struct{}) error { return nil })
	job := configs.Job{Name: "rollup", Handler: "greet", Tables: []string{"sales"},
		Spec: schedule.Spec{Every: time.Minute},
		Misfire: configs.Misfire{NoReplica: "run_once", NoWorker: "run_once", Paused: "skip",
			LockHeld: "skip", Limit: 1}, MisfireThreshold: time.Minute}
	built := configs.Defaults()
	built.Replica.Name, built.Jobs = "a", []configs.Job{job}
	read, err := configs.Parse("holdfast.yaml", []byte(`{replica: {name: a}}`))
	if err != nil {
		t.Fatal(err)
	}
	added := *read
	added.Jobs = []configs.Job{job}
	for name, config := range map[string]*configs.Config{"built": &built, "added": &added} {
		if _, err := holdfast.New(config, holdfast.WithHandlers(handler),
			holdfast.WithLog(zerolog.Nop(), nil)); !errors.Is(err, configs.ErrNotRead) {
			t.Errorf("%s: %v, want configs.ErrNotRead", name, err)
		}
	}
	if _, err := holdfast.New(read, holdfast.WithHandlers(handler),
		holdfast.WithLog(zerolog.Nop(), nil)); err != nil {
		t.Errorf("parsed: %v", err)
	}
}
