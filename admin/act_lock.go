package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Released describes a lock that was released by force.
type Released struct {
	Holder    locking.Owner `json:"holder"`
	Token     jobs.Token    `json:"token"`
	Resources []Resource    `json:"resources"` // all resources of the holder's claim
}

func (s lockPages) releaseJSON(w http.ResponseWriter, r *http.Request) {
	var reason, resource string
	var request storage.ReleaseRequest
	fields := map[string]any{"reason": &reason, "resource": &resource, "token": &request.Token,
		"end_transaction": &request.EndTransaction}
	var conflict refusedAction
	err := s.readAction(r, fields)
	var value Released
	if err == nil {
		err = s.Queries.Run(r.Context(), func(ctx context.Context) (err error) {
			value, err = s.release(ctx, s.acting(r, "api", reason), resource, request)
			if errors.Is(err, storage.ErrConflict) {
				conflict.Holders = s.holders(ctx, resource)
			}
			return err
		})
	}
	if err != nil {
		s.refuseAction(w, r, err, conflict)
		return
	}
	s.StoreAnswered()
	s.WriteJSON(w, http.StatusOK, value)
}

// release takes a lock away from the holder with the token in the request. Resource is the display
// name of the lock.
func (s lockPages) release(ctx context.Context, a storage.Action, resource string,
	request storage.ReleaseRequest) (Released, error) {
	var err error
	if request.Resource, err = locking.ParseDisplay(resource); err != nil {
		return Released{}, param.Errorf("resource is %q, expected a resource as the "+
			"list of locks has it", words.Cut(resource, 200))
	}
	if request.Token <= 0 {
		return Released{}, param.Errorf("token is %d, expected that of the holder as "+
			"the list of locks has it", request.Token)
	}
	gone, err := s.options.Operations.Release(ctx, a, request)
	if err != nil {
		return Released{}, err
	}
	return ReleasedOf(gone), nil
}

// ReleasedOf describes a lock that was released, in the form that the API returns.
func ReleasedOf(gone locking.Released) Released {
	return Released{Holder: gone.Owner, Token: gone.Token,
		Resources: locks.ResourcesOf(gone.Requests)}
}

// holders returns the current holders of a resource, or nil if the store can't be queried.
func (s lockPages) holders(ctx context.Context, resource string) []Lock {
	set, err := s.reader.lock.Grants(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(append(set.Locks, set.Own...), func(l Lock) bool {
		return l.Resource != resource
	})
}
