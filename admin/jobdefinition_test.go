package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/retry"
)

// jobsOfTable are the jobs of busy in the cron table of the replica. It lacks report/monthly, and
// has another definition of prune-orders.
func jobsOfTable() []jobs.Job {
	everyFive, err := schedule.ParseText("*/5 * * * *", time.UTC)
	if err != nil {
		panic(err)
	}
	base := jobs.Job{Handler: "sql", Schedule: everyFive, Group: "warehouse",
		GroupLimits: jobs.GroupLimits{PerCluster: 4}, MisfireThreshold: 30 * time.Second,
		Wait: retry.Policy{Attempts: 5, Delay: 500 * time.Millisecond, MaxDelay: 5 * time.Second,
			Backoff: retry.Exponential},
		Retry: retry.Policy{Attempts: 3, Delay: 10 * time.Second}, Timeout: 4 * time.Minute,
		Deadline: 10 * time.Minute, Recover: true,
		Hooks: []jobs.Hook{{Webhook: "pager", State: jobs.Failed},
			{Webhook: "pager", State: jobs.TimedOut}, {Webhook: "chat", State: jobs.Failed}}}
	rollup := base
	rollup.Name, rollup.Overridable = "rollup-sales", []string{"values"}
	rollup.Schedule = everyFive.WithJitter(20 * time.Second)
	rollup.Params = json.RawMessage(`{"statements":["DELETE FROM sales_rollup\n WHERE day >= ` +
		`current_date - 1","INSERT INTO sales_rollup\nSELECT account, date(created_at), sum(total)` +
		`\n  FROM sales\n WHERE created_at >= current_date - 1\n GROUP BY 1, 2"],` +
		`"values":{"region":"eu"}}`)
	prune := base
	prune.Name, prune.Params = "prune-orders", json.RawMessage(
		`{"statement":"DELETE FROM orders WHERE placed_at < now() - interval '7 years'"}`)
	sync := base
	sync.Name, sync.Handler, sync.Group, sync.GroupLimits = "sync-vendors", "http", "",
		jobs.GroupLimits{}
	sync.Secrets = []string{"hunter-of-vendors"}
	sync.Params = json.RawMessage(`{"url":"https://shop:swordfish@vendors.example/prices?day=1&` +
		`token=swordfish","method":"POST","headers":{"Authorization":"Bearer swordfish",` +
		`"X-Shop":"swordfish","Accept":"application/json"},"body":"{\"key\":\"hunter-of-vendors\"}"}`)
	reindex := base
	reindex.Name, reindex.Handler, reindex.Schedule = "reindex", "rebuild", schedule.Schedule{}
	return append([]jobs.Job{rollup, prune, sync, reindex}, graphOfJobs(base)...)
}

// graphOfJobs are a diamond around rollup-sales, with a long name, and more dependents than a level
// has room for.
func graphOfJobs(base jobs.Job) (list []jobs.Job) {
	add := func(name string, after ...string) {
		due, err := schedule.Parse(schedule.After(after...), time.UTC)
		if err != nil {
			panic(err)
		}
		job := base
		job.Name, job.Schedule = name, due
		list = append(list, job)
	}
	add("sum-by-region", "rollup-sales")
	add("sum-by-account-and-by-the-month-of-the-contract-with-all-its-changes", "rollup-sales")
	add("board", "sum-by-region",
		"sum-by-account-and-by-the-month-of-the-contract-with-all-its-changes", "rollup-sales")
	for i := range 15 {
		add(fmt.Sprintf("after-stock-%02d", i), "rollup-stock")
	}
	return list
}

// withTable gives the replica a cron table. Its definitions are the active ones, except that of
// prune-orders.
func withTable(o Options, table []jobs.Job) Options {
	o.Table = explain.TableOf(table)
	h := o.Store.(*history)
	for i := range h.jobs {
		if name := h.jobs[i].Name; name != "prune-orders" {
			h.jobs[i].Hash = o.Table.Hash(name)
		}
	}
	return o
}

func TestJobDefinition(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for _, test := range []struct{ job, want string }{
		{"rollup-sales", `{"params":{"statements":["DELETE FROM sales_rollup\n WHERE day >= current_date - 1","INSERT INTO sales_rollup\nSELECT account, date(created_at), sum(total)\n  FROM sales\n WHERE created_at >= current_date - 1\n GROUP BY 1, 2"],"values":{"region":"eu"}},"overridable":["values"],"dependents":["board","sum-by-account-and-by-the-month-of-the-contract-with-all-its-changes","sum-by-region"],"webhooks":[{"webhook":"chat","states":["failed"]},{"webhook":"pager","states":["failed","timed_out"]}],"policies":[`},
		{"prune-orders", `{"inactive":true,"params":{"statement":`},
		{"reindex", `{"params":{},"webhooks":`},
		{"report%2Fmonthly", `null`},
	} {
		var got struct{ Definition json.RawMessage }
		reply := get(t, handler, "/api/v1/jobs/"+test.job)
		if err := json.Unmarshal(reply.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Compact(&out, got.Definition); err != nil {
			t.Fatal(err)
		}
		compact := strings.NewReplacer(`\u003e`, ">", `\u003c`, "<").Replace(out.String())
		if !strings.HasPrefix(compact, test.want) {
			t.Errorf("%s: %s, want %s", test.job, compact, test.want)
		}
	}
}

// TestSecretsOfParamsAreNotShown looks for secrets in params, URLs, headers and bodies, on the page
// and in the API, also for people who may edit the job.
func TestSecretsOfParamsAreNotShown(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for _, path := range []string{"/jobs/sync-vendors", "/api/v1/jobs/sync-vendors"} {
		body := get(t, handler, path).Body.String()
		for _, secret := range []string{"swordfish", "hunter-of-vendors"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s has the secret %s", path, secret)
			}
		}
		for _, shown := range []string{"vendors.example/prices?day=1", "application/json",
			"[redacted]"} {
			if !strings.Contains(body, shown) {
				t.Errorf("%s lacks %s", path, shown)
			}
		}
	}
}

// TestParamsOfJobsNeedPermission requests a job with a token that may not read definitions.
func TestParamsOfJobsNeedPermission(t *testing.T) {
	o, of := guardedOptions(t), busy()
	o.Store, o.Table = of.Store, of.Table
	o.Roles = []permission.Role{{Name: "board", Grant: permission.Grant{
		Permissions: []permission.Permission{permission.View, permission.ViewParams}}}}
	o.Tokens[0].Role = "board"
	handler := newServer(t, o).Handler()
	proof := accesstest.WithHeader("Authorization", "Bearer "+accesstest.DeployToken)
	for path, want := range map[string]string{
		"/jobs/rollup-sales":        "You do not have the permission edit_jobs on this job.",
		"/api/v1/jobs/rollup-sales": `"key":"overlap"`} {
		body := strings.ReplaceAll(accesstest.Ask(handler, http.MethodGet, path, proof).Body.String(), `": "`, `":"`)
		if !strings.Contains(body, want) || strings.Contains(body, "sales_rollup\\n") ||
			strings.Contains(body, "sum(total)") {
			t.Errorf("%s: %s", path, body)
		}
	}
}
