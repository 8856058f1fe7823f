package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

const readText = `
jobs:
  - {name: rollup, schedule: "@hourly", handler: sql, tables: [sales],
      params: {statement: "${STATEMENT:-SELECT 1}"}}
  - {name: "each.{item}", for_each: [a, b], handler: sql, tables: ["sales_{item}"],
      params: {statement: "SELECT 1"}}
  - {name: manual, handler: sql, params: {statement: "SELECT 1"}}
`

// The test changes a job in each way that leaves it without its locks, its schedule or its checks.
func TestUnreadPartsAreReported(t *testing.T) {
	read := func(t *testing.T) *Config {
		config, err := Parse("holdfast.yaml", []byte(readText))
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	if err := read(t).CheckRead(); err != nil {
		t.Errorf("as it was read: %v", err)
	}
	for name, change := range map[string]func(c *Config){
		"built": func(c *Config) {
			*c = Config{Jobs: []Job{{Name: "rollup", Tables: []string{"sales"}}}}
		},
		"from defaults": func(c *Config) { *c = Defaults() },
		"added": func(c *Config) {
			c.Jobs = append(c.Jobs, Job{Name: "rollup", Tables: []string{"sales"}})
		},
		"other table": func(c *Config) { c.Jobs[0].Tables = []string{"orders"} },
		"copied": func(c *Config) {
			job := c.Jobs[0]
			job.Name = "rollup"
			job.ReadTables = append(slices.Clone(job.ReadTables), "orders")
			c.Jobs = []Job{job}
		},
		"other spec":      func(c *Config) { c.Jobs[0].Spec = schedule.Spec{Every: time.Minute} },
		"other schedule":  func(c *Config) { c.Jobs[0].Schedule = schedule.Schedule{} },
		"without locks":   func(c *Config) { c.Jobs[0].Requests = nil },
		"other params":    func(c *Config) { c.Jobs[0].Params = c.Jobs[1].Params },
		"other threshold": func(c *Config) { c.Jobs[0].MisfireThreshold = 0 },
	} {
		config := read(t)
		change(config)
		err := config.CheckRead()
		if !errors.Is(err, ErrNotRead) {
			t.Errorf("%s: %v, want ErrNotRead", name, err)
		} else if name != "built" && name != "from defaults" && !strings.HasPrefix(err.Error(),
			`job "rollup": `) {
			t.Errorf("%s: %v, want the job's name", name, err)
		}
	}
	config := read(t)
	config.Workers, config.Admin.Listen = 3, ""
	if err := config.CheckRead(); err != nil {
		t.Errorf("a replica with other workers: %v", err)
	}
}
