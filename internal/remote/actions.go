package remote

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// act performs an action.
func act[T any](ctx context.Context, c *Client, r request) (value T, err error) {
	_, err = c.ask(ctx, r, &value)
	return value, err
}

// reasoned is the body of an action with a reason only.
type reasoned struct {
	Reason string `json:"reason,omitempty"`
}

// Trigger adds a run.
func (c *Client) Trigger(ctx context.Context, reason string,
	r storage.TriggerRequest) (storage.Triggered, error) {
	body := map[string]any{}
	if reason != "" {
		body["reason"] = reason
	}
	if r.Params != nil {
		body["params"] = r.Params
	}
	if r.EvenPaused {
		body["even_paused"] = true
	}
	if r.Wait != nil {
		body["wait"] = r.Wait.String()
	}
	if !r.At.IsZero() {
		body["at"] = r.At.UTC().Format(time.RFC3339Nano)
	}
	if r.Delay != 0 {
		body["delay"] = r.Delay.String()
	}
	return act[storage.Triggered](ctx, c,
		request{path: []string{"jobs", r.Job, "trigger"}, body: body, key: r.Key})
}

// Pause pauses a target.
func (c *Client) Pause(ctx context.Context, reason string,
	target storage.Target) (storage.Pause, error) {
	return act[storage.Pause](ctx, c,
		request{path: targetPath(target, "pause"), body: reasoned{reason}})
}

// Resume resumes a target.
func (c *Client) Resume(ctx context.Context, reason string,
	target storage.Target) (storage.Pause, error) {
	return act[storage.Pause](ctx, c,
		request{path: targetPath(target, "resume"), body: reasoned{reason}})
}

func targetPath(t storage.Target, verb string) []string {
	switch t.Kind {
	case storage.TargetJob:
		return []string{"jobs", t.Name, verb}
	case storage.TargetGroup:
		return []string{"groups", t.Name, verb}
	}
	return []string{verb}
}

// Cancel ends a run.
func (c *Client) Cancel(ctx context.Context, reason string,
	run uuid.UUID) (storage.Record, error) {
	return act[storage.Record](ctx, c,
		request{path: []string{"runs", run.String(), "cancel"}, body: reasoned{reason}})
}

// Release releases a lock by force.
func (c *Client) Release(ctx context.Context, reason string,
	r storage.ReleaseRequest) (admin.Released, error) {
	return act[admin.Released](ctx, c, request{path: []string{"locks", "release"}, body: struct {
		reasoned
		Resource       string     `json:"resource"`
		Token          jobs.Token `json:"token"`
		EndTransaction bool       `json:"end_transaction"`
	}{reasoned{reason}, r.Resource.String(), r.Token, r.EndTransaction}})
}

// Drain drains a session, or ends its drain.
func (c *Client) Drain(ctx context.Context, reason string, session uuid.UUID, drain bool) error {
	verb := "undrain"
	if drain {
		verb = "drain"
	}
	_, err := c.ask(ctx, request{path: []string{"replicas", session.String(), verb},
		body: reasoned{reason}}, new(struct{}))
	return err
}

// RemoveReplica removes a lost replica from the status and from lists of replicas.
func (c *Client) RemoveReplica(ctx context.Context, reason string, session uuid.UUID) error {
	_, err := c.ask(ctx, request{path: []string{"replicas", session.String(), "remove"},
		body: reasoned{reason}}, new(struct{}))
	return err
}

// Reload makes the replica that answers read its configuration again.
func (c *Client) Reload(ctx context.Context, reason string) (admin.Reloaded, error) {
	return act[admin.Reloaded](ctx, c, request{path: []string{"reload"}, body: reasoned{reason}})
}

// PutJob adds the job of a text in YAML or JSON. With replace, it changes an added job.
func (c *Client) PutJob(ctx context.Context, reason string, text []byte,
	replace bool) (storage.Spec, error) {
	return act[storage.Spec](ctx, c, request{path: []string{"jobs"}, body: struct {
		reasoned
		Text    string `json:"text"`
		Replace bool   `json:"replace"`
	}{reasoned{reason}, string(text), replace}})
}

// RemoveJob removes an added job.
func (c *Client) RemoveJob(ctx context.Context, reason, name string) error {
	_, err := c.ask(ctx, request{path: []string{"jobs", name, "remove"}, body: reasoned{reason}},
		new(struct{}))
	return err
}

// DeliverAgain repeats a failed delivery.
func (c *Client) DeliverAgain(ctx context.Context, reason string,
	delivery uuid.UUID) (storage.Undelivered, error) {
	return act[storage.Undelivered](ctx, c,
		request{path: []string{"webhooks", delivery.String(), "again"}, body: reasoned{reason}})
}
