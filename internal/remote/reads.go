package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// get asks for a value.
func get[T any](ctx context.Context, c *Client, path ...string) (value T, err error) {
	_, err = c.ask(ctx, request{path: path}, &value)
	return value, err
}

// list asks for the entries of a list, at most limit of them; 0: all.
func list[T any](ctx context.Context, c *Client, limit int, query url.Values,
	path ...string) ([]T, error) {
	all := []T{}
	at := newCursor(c, path, query)
	for {
		size := storage.MaxBatch
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		at.query.Set("limit", strconv.Itoa(size))
		page, err := nextOf[T](ctx, at)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if limit > 0 && len(all) >= limit {
			return all[:limit], nil
		}
		if at.query == nil || len(page) < size {
			return all, nil
		}
	}
}

// set adds parameters that are not empty: pairs of names and values.
func set(query url.Values, pairs ...string) url.Values {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// instant returns a time as a parameter, "" for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Overview returns the state of the cluster. A store that does not answer is a problem of its
// status, and no error.
func (c *Client) Overview(ctx context.Context) (o admin.Overview, err error) {
	_, err = c.ask(ctx, request{path: []string{"overview"},
		accepts: []int{http.StatusServiceUnavailable}}, &o)
	if err == nil && o.Status.Severity == "" {
		err = fmt.Errorf("ask %s: the answer has no status: %s", c.options.Server,
			oneLine(cmp.Or(o.Error, "it is no overview")))
	}
	return o, err
}

// Jobs returns all jobs by name.
func (c *Client) Jobs(ctx context.Context) ([]admin.Job, error) {
	return list[admin.Job](ctx, c, 0, url.Values{}, "jobs")
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, name string) (admin.Job, error) {
	return get[admin.Job](ctx, c, "jobs", name)
}

// Locks returns all locks by resource.
func (c *Client) Locks(ctx context.Context) ([]admin.Lock, error) {
	return get[[]admin.Lock](ctx, c, "locks")
}

// Replicas returns live replicas and those that ended in the last hour, by name.
func (c *Client) Replicas(ctx context.Context) ([]admin.Replica, error) {
	return get[[]admin.Replica](ctx, c, "replicas")
}

// Databases returns the databases of jobs as the live replicas see them, by name.
func (c *Client) Databases(ctx context.Context) ([]admin.Database, error) {
	return get[[]admin.Database](ctx, c, "databases")
}

// Runs returns runs without output, newest first. Of the filter it uses Job, JobPrefix, Group,
// States, Replica, Error, Backfill, From, Until and Limit.
func (c *Client) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	query := set(url.Values{}, "job", f.Jobs(), "group", f.Group, "replica", f.Replica,
		"error", f.Error, "from", instant(f.From), "until", instant(f.Until))
	if f.Backfill != uuid.Nil {
		query.Set("backfill", f.Backfill.String())
	}
	for _, state := range f.States {
		query.Add("state", string(state))
	}
	return list[storage.Record](ctx, c, f.Limit, query, "runs")
}

// Run returns a run with its attempts, and the output of the last.
func (c *Client) Run(ctx context.Context, id uuid.UUID) (admin.RunDetail, error) {
	return get[admin.RunDetail](ctx, c, "runs", id.String())
}

// Attempt returns an attempt of a run with its output.
func (c *Client) Attempt(ctx context.Context, run uuid.UUID, n int) (storage.RunAttempt, error) {
	return get[storage.RunAttempt](ctx, c, "runs", run.String(), "attempts", strconv.Itoa(n))
}

// Watch does nothing: a request for a running run makes it save its output.
func (c *Client) Watch(context.Context, uuid.UUID) error { return nil }

// Wait is [operations.Operations.Wait]. It also goes on trying while the server does not answer.
func (c *Client) Wait(ctx context.Context, run uuid.UUID) (storage.Record, error) {
	return operations.Await(ctx, run,
		func(ctx context.Context, id uuid.UUID) (storage.Record, error) {
			return get[storage.Record](ctx, c, "runs", id.String(), "outcome")
		})
}

// Pauses returns the active pauses.
func (c *Client) Pauses(ctx context.Context) ([]storage.Pause, error) {
	return get[[]storage.Pause](ctx, c, "pauses")
}

// Audit returns the audit log, newest first. Of the filter it uses Actor, Action, Target, Since,
// Until and Limit.
func (c *Client) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	return list[storage.Audited](ctx, c, f.Limit, auditQuery(f), "audit")
}

// ExportAudit calls write for each page of the audit log, oldest first. Of the filter it uses the
// same fields as Audit; Limit is the size of a page.
func (c *Client) ExportAudit(ctx context.Context, f storage.AuditFilter,
	write func([]storage.Audited) error) error {
	query := set(auditQuery(f), "order", "oldest", "limit", strconv.Itoa(f.Limit))
	at := newCursor(c, []string{"audit"}, query)
	for at.query != nil {
		page, err := nextOf[storage.Audited](ctx, at)
		if err != nil {
			return err
		}
		if err := write(page); err != nil {
			return err
		}
	}
	return nil
}

func auditQuery(f storage.AuditFilter) url.Values {
	return set(url.Values{}, "actor", f.Actor, "action", f.Action, "target", f.Target, "from",
		instant(f.Since), "until", instant(f.Until))
}

// Undelivered returns failed deliveries, newest first. Of the filter it uses Webhook, GivenUp and
// Limit.
func (c *Client) Undelivered(ctx context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	given := ""
	if f.GivenUp {
		given = "yes"
	}
	return list[storage.Undelivered](ctx, c, f.Limit,
		set(url.Values{}, "webhook", f.Webhook, "given_up", given), "webhooks")
}

// Explain explains a job's firing at a time in the format of schedule.ParseTime.
func (c *Client) Explain(ctx context.Context, job, at string) (e explain.Explanation, err error) {
	_, err = c.ask(ctx, request{path: []string{"jobs", job, "explain"},
		query: url.Values{"at": {at}}}, &e)
	return e, err
}
