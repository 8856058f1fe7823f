package explain

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

func TestPolicies(t *testing.T) {
	const second, minute, hour = time.Second, time.Minute, time.Hour
	rules := func(r jobs.MisfireRules) jobs.Job { return jobs.Job{MisfireBy: r} }
	waiting := func(wait retry.Policy, then jobs.Misfire, limit int) jobs.Job {
		return jobs.Job{Wait: wait, MisfireBy: jobs.MisfireRules{LockHeld: then, Limit: limit}}
	}
	everyHour, err := schedule.ParseText("0 * * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	five := retry.Policy{Attempts: 5, Delay: 500 * time.Millisecond, MaxDelay: 5 * second,
		Backoff: retry.Exponential, Jitter: .2}
	tests := []struct {
		key  string
		job  jobs.Job
		want string
	}{
		{"overlap", jobs.Job{}, "A firing is skipped while an earlier run of the job is active."},
		{"overlap", jobs.Job{Overlap: jobs.OverlapSkip}, "A firing is skipped while an earlier run of the job is active."},
		{"overlap", jobs.Job{Overlap: jobs.OverlapQueue}, "One firing waits for the end of an active run, and further firings are skipped."},
		{"overlap", jobs.Job{Overlap: jobs.OverlapAllow}, "Runs of the job may run at the same time."},
		{"wait", waiting(five, "", 0), "A firing tries 5 times in 7.5 s to get a held lock, and then is skipped."},
		{"wait", waiting(five, jobs.MisfireRunOnce, 0), "A firing tries 5 times in 7.5 s to get a held lock, and then waits until the next scheduled time."},
		{"wait", waiting(five, jobs.MisfireRunAll, 3), "A firing tries 5 times in 7.5 s to get a held lock, and then waits for 3 further scheduled times."},
		{"wait", waiting(retry.Policy{}, "", 0), "A firing whose lock is held is skipped."},
		{"wait", waiting(retry.Policy{Attempts: 1}, jobs.MisfireRunAll, 1), "A firing whose lock is held waits for one further scheduled time."},
		{"wait", waiting(retry.Policy{Attempts: -1, Delay: second, Elapsed: 2 * hour}, "", 0), "A firing tries for 2 h to get a held lock, and then is skipped."},
		{"wait.reserve", jobs.Job{}, "Younger firings of other jobs cannot pass a waiting firing for the first 5 s."},
		{"wait.reserve", jobs.Job{Reserve: locking.NeverReserve}, "Younger firings of other jobs may pass a waiting firing at once."},
		{"retry", jobs.Job{}, "A run is not repeated after an error."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 1, Elapsed: hour}}, "A run is not repeated after an error."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 3, Delay: 10 * second}}, "A run has up to 3 attempts, 10 s apart."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 3, Delay: 10 * second, MaxDelay: 5 * second}}, "A run has up to 3 attempts, 5 s apart."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 9, Delay: second, Backoff: retry.Exponential, Jitter: .25}}, "A run has up to 9 attempts, 1 s apart at first, doubling, up to 25% less at random."},
		{"retry", jobs.Job{Retry: retry.Policy{Delay: 10 * second, MaxDelay: hour, Elapsed: 24 * hour, Backoff: retry.Exponential}}, "A run has any number of attempts, 10 s apart at first, doubling up to 1 h, none later than 1 d after the first."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 4, Backoff: retry.ReverseExponential}}, "A run has up to 4 attempts, 1.024 s apart at first, with decreasing delays."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 3, Delay: 10 * second, MaxDelay: 5 * second, Backoff: retry.Exponential}}, "A run has up to 3 attempts, 5 s apart."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 3, Delay: second, MaxDelay: second, Backoff: retry.Exponential}}, "A run has up to 3 attempts, 1 s apart."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 4, MaxDelay: 200 * time.Millisecond, Backoff: retry.ReverseExponential}}, "A run has up to 4 attempts, at most 200 ms apart."},
		{"retry", jobs.Job{Retry: retry.Policy{Attempts: 4, MaxDelay: hour, Backoff: retry.ReverseExponential}}, "A run has up to 4 attempts, 1.024 s apart at first, with decreasing delays."},
		{"timeout", jobs.Job{}, "An attempt has no time limit."},
		{"timeout", jobs.Job{Timeout: 90 * second}, "An attempt is ended after 1 min 30 s."},
		{"recover", jobs.Job{}, "A lost run is not repeated."},
		{"recover", jobs.Job{Recover: true}, "A lost run is repeated, at most three times."},
		{"deadline", jobs.Job{}, "A firing may begin at any time after its scheduled time."},
		{"deadline", jobs.Job{Deadline: 10 * minute}, "A firing that has not begun 10 min after its scheduled time is skipped."},
		{"misfire_threshold", jobs.Job{MisfireThreshold: 1500 * time.Millisecond}, "A firing that no replica has started after 1.5 s is a misfire."},
		{"misfire.no_replica", jobs.Job{}, "The latest misfire while no replica was up runs late."},
		{"misfire.no_replica", jobs.Job{Misfire: jobs.MisfireSkip}, "Misfires while no replica was up do not run."},
		{"misfire.no_replica", jobs.Job{Misfire: jobs.MisfireRunAll}, "The 100 latest misfires while no replica was up run late."},
		{"misfire.no_replica", jobs.Job{Misfire: jobs.MisfireRunAll, MisfireBy: jobs.MisfireRules{Limit: 1}}, "The latest misfire while no replica was up runs late."},
		{"misfire.no_replica", jobs.Job{MisfireBy: jobs.MisfireRules{MaxAge: 6 * hour}}, "The latest misfire while no replica was up runs late, if it is at most 6 h old."},
		{"misfire.no_replica", jobs.Job{Misfire: jobs.MisfireRunAll, MisfireBy: jobs.MisfireRules{Limit: 7, MaxAge: 36 * hour}}, "The 7 latest misfires while no replica was up run late, if they are at most 1 d 12 h old."},
		{"misfire.no_worker", rules(jobs.MisfireRules{}), "The latest misfire that no live replica could start runs late."},
		{"misfire.no_worker", rules(jobs.MisfireRules{NoWorker: jobs.MisfireSkip}), "Misfires that no live replica could start do not run."},
		{"misfire.paused", rules(jobs.MisfireRules{}), "Misfires during a pause do not run."},
		{"misfire.paused", rules(jobs.MisfireRules{Paused: jobs.MisfireRunOnce}), "The latest misfire during a pause runs late."},
		{"group", jobs.Job{}, ""},
		{"group", jobs.Job{Group: "night"}, "The group night has no limit of runs."},
		{"group", jobs.Job{Group: "night", GroupLimits: jobs.GroupLimits{PerCluster: 4}}, "The group night has at most 4 runs in the cluster."},
		{"group", jobs.Job{Group: "night", GroupLimits: jobs.GroupLimits{PerCluster: 4, PerReplica: 2}}, "The group night has at most 4 runs in the cluster and 2 runs on each replica."},
		{"group", jobs.Job{Group: "night", GroupLimits: jobs.GroupLimits{PerReplica: 1}}, "The group night has at most one run on each replica."},
		{"jitter", jobs.Job{Schedule: everyHour}, ""},
		{"jitter", jobs.Job{Schedule: everyHour.WithJitter(5 * minute)}, "A firing starts up to 5 min after its scheduled time."},
	}
	for _, test := range tests {
		got := ""
		for _, p := range Policies(&test.job) {
			if p.Key == test.key {
				got = p.Text
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.key, got, test.want)
		}
	}
}
