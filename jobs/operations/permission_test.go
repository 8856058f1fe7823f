package operations

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestActionsNeedPermissionsOfTheirContext checks that programs obey the policy when they act for
// others. The actions are refused before they reach the
// store, which panics.
func TestActionsNeedPermissionsOfTheirContext(t *testing.T) {
	policy := permission.NewPolicy(nil, func(format string, args ...any) {
		t.Errorf(format, args...)
	})
	ctx := permission.With(context.Background(), permission.Subject{Authorizer: policy,
		Identity: permission.Identity{Name: "vera", Role: permission.Viewer}})
	o, a := New(Options{Control: &controlOfProof{}}), storage.Action{Actor: "vera"}
	release := storage.ReleaseRequest{Token: 1}
	for need, do := range map[permission.Permission]func() error{
		permission.Trigger: func() error {
			_, err := o.Trigger(ctx, a, storage.TriggerRequest{Job: "j"})
			_, again := o.Backfill(ctx, a, BackfillRequest{Job: "j"})
			if again == nil {
				return nil
			}
			return err
		},
		permission.Pause: func() error {
			_, err := o.Pause(ctx, a, storage.Target{Kind: storage.TargetAll})
			_, again := o.Resume(ctx, a, storage.Target{Kind: storage.TargetGroup, Name: "g"})
			if again == nil {
				return nil
			}
			return err
		},
		permission.Cancel: func() error {
			_, err := o.Cancel(ctx, a, uuid.New())
			_, again := o.CancelBackfill(ctx, a, uuid.New())
			if again == nil {
				return nil
			}
			return err
		},
		permission.Release: func() error { _, err := o.Release(ctx, a, release); return err },
		permission.Drain: func() error {
			if err := o.RemoveReplica(ctx, a, uuid.New()); err == nil {
				return nil
			}
			return o.Drain(ctx, a, uuid.New(), true)
		},
		permission.EditJobs: func() error {
			_, err := o.PutJob(ctx, a, []byte("{}"), 0)
			if again := o.RemoveJob(ctx, a, "j", 1); again == nil {
				return nil
			}
			return err
		},
	} {
		var denied *permission.DeniedError
		if err := do(); !errors.As(err, &denied) || denied.Permission != need {
			t.Errorf("%s: got %v", need, err)
		}
	}
}

// TestOverridingAPauseNeedsItsPermission checks that the permission to trigger is not enough.
func TestOverridingAPauseNeedsItsPermission(t *testing.T) {
	policy := permission.NewPolicy(nil, func(format string, args ...any) {
		t.Errorf(format, args...)
	})
	o := New(Options{Control: &controlOfProof{}})
	for role, allowed := range map[string]bool{permission.TriggerRole: false,
		permission.Operator: true} {
		ctx := permission.With(t.Context(), permission.Subject{Authorizer: policy,
			Identity: permission.Identity{Name: "tom", Role: role}})
		for _, even := range []bool{false, true} {
			_, err := o.Trigger(ctx, storage.Action{Actor: "tom"},
				storage.TriggerRequest{Job: "j", EvenPaused: even})
			var denied *permission.DeniedError
			if got := !errors.As(err, &denied); got != (allowed || !even) ||
				!got && denied.Permission != permission.Pause {
				t.Errorf("role %s, even paused %v: got %v", role, even, err)
			}
		}
	}
}

// controlOfProof keeps the proof of the last action.
type controlOfProof struct {
	Control
	proof string
}

func (c *controlOfProof) Pause(_ context.Context, a storage.Action,
	target storage.Target) (storage.Pause, error) {
	c.proof = a.Proof
	return storage.Pause{Target: target}, nil
}

func (c *controlOfProof) Trigger(context.Context, storage.Action,
	storage.TriggerRequest) (storage.Triggered, error) {
	return storage.Triggered{}, nil
}

// TestActionsHaveTheProofOfTheirContext checks what the audit log gets.
func TestActionsHaveTheProofOfTheirContext(t *testing.T) {
	control := &controlOfProof{}
	o := New(Options{Control: control})
	roles := permission.NewPolicy(nil, func(string, ...any) {})
	signedIn := permission.With(t.Context(), permission.Subject{Authorizer: roles,
		Identity: permission.Identity{Name: "anna", Role: permission.Operator, Proof: "oidc"}})
	for _, test := range []struct {
		name  string
		ctx   context.Context
		given string
		want  string
	}{
		{"a subject", signedIn, "", "oidc"}, {"no subject", t.Context(), "", "none"},
		{"given by the program", t.Context(), "token", "token"},
	} {
		_, err := o.Pause(test.ctx, storage.Action{Actor: "anna", Proof: test.given},
			storage.Target{Kind: storage.TargetAll})
		if err != nil || control.proof != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, control.proof, err, test.want)
		}
	}
}
