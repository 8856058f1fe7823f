package admin

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func (s runPages) cancelJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Record, error) {
			id, err := pathID(r, "id", "a run's id")
			if err != nil {
				return storage.Record{}, err
			}
			run, err := ops.Cancel(ctx, s.acting(r, "api", reason), id)
			return visible(r.Context(), records.Plain(run)), err
		})
}

// pathID parses a UUID in the path.
func pathID(r *http.Request, name, what string) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue(name))
	if err != nil {
		return id, param.Errorf("%s is %q, expected %s, a UUID", name,
			words.Cut(r.PathValue(name), 100), what)
	}
	return id, nil
}
