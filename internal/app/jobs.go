package app

import (
	"time"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Jobs returns the jobs of the configuration as the scheduler needs them.
func Jobs(config *configs.Config) []jobs.Job {
	table := make([]jobs.Job, len(config.Jobs))
	for i, j := range config.Jobs {
		table[i] = jobOf(config, j)
	}
	return table
}

// jobOf returns one job of the configuration, or one that operators added.
func jobOf(config *configs.Config, j configs.Job) jobs.Job {
	group := config.Group(j.Group)
	return jobs.Job{
		Name: j.Name, Description: j.Description, Schedule: j.Schedule, Handler: j.Handler,
		Params: j.Params.JSON(), Secrets: j.Params.Secrets(),
		Overridable: j.Overridable, Database: j.Database, Resources: j.Requests,
		Wait: j.Wait.Policy(), Reserve: reserveOf(j.Wait.Reserve),
		Overlap: jobs.Overlap(j.Overlap), Misfire: jobs.Misfire(j.Misfire.NoReplica),
		MisfireThreshold: j.MisfireThreshold,
		MisfireBy: jobs.MisfireRules{
			NoWorker: jobs.Misfire(j.Misfire.NoWorker), Paused: jobs.Misfire(j.Misfire.Paused),
			LockHeld: jobs.Misfire(j.Misfire.LockHeld),
			Limit:    j.Misfire.Limit, MaxAge: j.Misfire.MaxAge,
		},
		Group: j.Group, GroupLimits: jobs.GroupLimits{PerCluster: group.PerCluster,
			PerReplica: group.PerReplica}, Priority: j.Priority,
		Deadline: j.Deadline, Timeout: j.Timeout, Retry: j.Retry, Recover: j.Recover,
		Hooks: hooksOf(config, j.Name),
	}
}

// reserveOf returns the job option for wait.reserve, where 0 means never.
func reserveOf(configured time.Duration) time.Duration {
	if configured == 0 {
		return locking.NeverReserve
	}
	return configured
}

// hooksOf returns the webhooks that get events of the job.
func hooksOf(config *configs.Config, job string) []jobs.Hook {
	var hooks []jobs.Hook
	for _, w := range config.Webhooks {
		if !w.Covers(job) {
			continue
		}
		for _, event := range w.Events {
			hooks = append(hooks, jobs.Hook{Webhook: w.Name, State: jobs.State(event)})
		}
	}
	return hooks
}
