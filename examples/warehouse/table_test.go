package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/locking"
)

// parse checks a cron table as a replica does at its start.
func parse(t *testing.T, table string) *configs.Config {
	t.Helper()
	env := map[string]string{
		"DATABASE_URL": "postgres://postgres@127.0.0.1:5432/warehouse", "MEMCACHED": "127.0.0.1:11211",
		"REPLICA": "replica-a", "LISTEN": "127.0.0.1:0",
	}
	config, err := configs.Parse("warehouse.yaml", []byte(table),
		configs.WithEnv(func(name string) (string, bool) {
			value, set := env[name]
			return value, set
		}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holdfast.New(holdfast.WithConfig(config), holdfast.WithAdmin(admin.Page),
		holdfast.WithHandlers(handlers(nil)...)); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestEachJobLocksTheTablesItWrites(t *testing.T) {
	for _, job := range parse(t, cronTable).Jobs {
		if !slices.ContainsFunc(job.Requests, func(r locking.Request) bool {
			return r.Mode == locking.Exclusive
		}) {
			t.Errorf("%s locks nothing exclusively", job.Name)
		}
		if job.Overlap != "skip" {
			t.Errorf("%s has overlap %q, want skip", job.Name, job.Overlap)
		}
	}
}

func TestTableWithoutLocksDiffersOnlyInLocks(t *testing.T) {
	with, without := parse(t, cronTable), parse(t, withoutLocks(cronTable))
	if len(with.Jobs) != len(without.Jobs) {
		t.Fatalf("%d jobs with locks, %d without", len(with.Jobs), len(without.Jobs))
	}
	for i, job := range without.Jobs {
		same := with.Jobs[i]
		if len(job.Requests) != 0 || job.Overlap != "allow" {
			t.Errorf("%s locks %v and has overlap %q, want nothing and allow", job.Name,
				job.Requests, job.Overlap)
		}
		if job.Name != same.Name || !reflect.DeepEqual(job.Spec, same.Spec) ||
			job.Handler != same.Handler || job.Timeout != same.Timeout ||
			string(job.Params.JSON()) != string(same.Params.JSON()) {
			t.Errorf("%s differs from %s in more than its locks", job.Name, same.Name)
		}
	}
}

// A total may be incomplete until all runs that write it have ended.
func TestSettlingWaitsForAllJobsThatWriteTotals(t *testing.T) {
	config := parse(t, cronTable)
	for _, name := range slices.Concat(settleRounds()...) {
		if !slices.ContainsFunc(config.Jobs, func(j configs.Job) bool { return j.Name == name }) {
			t.Errorf("no job is called %q", name)
		}
	}
	for _, job := range config.Jobs {
		writes := slices.ContainsFunc(job.Tables, func(table string) bool {
			return strings.HasSuffix(table, "_totals")
		})
		if writes && job.Name != "catch-up-withdrawals" &&
			!slices.Contains(slices.Concat(settleRounds()...), job.Name) {
			t.Errorf("%s writes totals and is not waited for", job.Name)
		}
	}
}
