package remote

import (
	"context"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Backfills returns backfills, newest first.
func (c *Client) Backfills(ctx context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	return list[storage.Backfill](ctx, c, storage.PageSize(f.Limit),
		set(url.Values{}, "job", f.Job, "state", string(f.State)), "backfills")
}

// Backfill returns a backfill with its progress.
func (c *Client) Backfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error) {
	return get[storage.Backfill](ctx, c, "backfills", id.String())
}

// PlanBackfill returns what a backfill would do.
func (c *Client) PlanBackfill(ctx context.Context,
	r operations.BackfillRequest) (plan operations.BackfillPlan, err error) {
	query := set(url.Values{}, "from", instant(r.From), "to", instant(r.To))
	if r.Parallel != 0 {
		query.Set("parallel", strconv.Itoa(r.Parallel))
	}
	_, err = c.ask(ctx, request{path: []string{"jobs", r.Job, "backfill"}, query: query}, &plan)
	return plan, err
}

// AddBackfill adds a backfill.
func (c *Client) AddBackfill(ctx context.Context, reason, key string,
	r operations.BackfillRequest) (storage.Backfill, error) {
	return act[storage.Backfill](ctx, c, request{path: []string{"jobs", r.Job, "backfill"},
		key: key, body: struct {
			reasoned
			From     string `json:"from"`
			To       string `json:"to,omitempty"`
			Parallel int    `json:"parallel,omitempty"`
		}{reasoned{reason}, instant(r.From), instant(r.To), r.Parallel}})
}

// CancelBackfill ends a backfill.
func (c *Client) CancelBackfill(ctx context.Context, reason string,
	id uuid.UUID) (storage.Backfill, error) {
	return act[storage.Backfill](ctx, c,
		request{path: []string{"backfills", id.String(), "cancel"}, body: reasoned{reason}})
}
