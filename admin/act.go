package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// errNoActions is returned by a server without Options.Operations.
var errNoActions = errors.New("act: this page is read-only")

// errNoReload is returned by a server without Options.Reload.
var errNoReload = fmt.Errorf("reload: %w in this program, which has no file to read again",
	errors.ErrUnsupported)

// anonymous is the actor where the server has no users.
const anonymous = "anonymous"

// acting returns the actor, channel, source and reason of a request that is an action.
func (s base) acting(r *http.Request, via, reason string) storage.Action {
	source := access.SourceOf(r)
	return storage.Action{
		Actor: cmp.Or(access.IdentityOf(r).Name, anonymous), Via: via, Client: source.Client,
		RequestID: source.RequestID, Replica: s.options.Replica, Reason: reason,
		Key: r.Header.Get("Idempotency-Key"),
	}
}

// refusedAction is the body of the answer to an action that was refused.
type refusedAction struct {
	Error    string                   `json:"error"`
	Code     Refusal                  `json:"code,omitempty"`     // the kind of refusal
	Problems []operations.SpecProblem `json:"problems,omitempty"` // of the params or the job
	Paused   *storage.Pause           `json:"paused,omitempty"`
	// the blocker of a trigger that was refused at once; absent if no replica can start runs
	WaitsFor *storage.RunBlocker `json:"waits_for,omitempty"`
	Holders  []Lock              `json:"holders,omitempty"` // current holders of the resource
	// a field to add to the request, so that the action is accepted
	Option map[string]any `json:"option,omitempty"`
}

// refusedActionOf returns the status and the body for an action that was refused. The status is 0
// if the store could not be queried.
func refusedActionOf(err error) (status int, refused refusedAction) {
	refused.Error = words.OneLine(err.Error(), 2000)
	var bad *param.Error
	var action *storage.BadInputError
	var params *jobs.ParamsError
	var spec *operations.SpecError
	var paused *storage.PausedError
	var busy *storage.BusyError
	var large *http.MaxBytesError
	var denied *permission.DeniedError
	var mistakes *ReloadError
	switch {
	case errors.As(err, &denied):
		return refused.as(http.StatusForbidden, RefusedPermission)
	case errors.As(err, &bad), errors.As(err, &action):
		return refused.as(http.StatusBadRequest, RefusedInput)
	case errors.As(err, &large):
		refused.Error = fmt.Sprintf("The request has more than %d bytes.", large.Limit)
		return refused.as(http.StatusRequestEntityTooLarge, RefusedInput)
	case errors.As(err, &params):
		for _, p := range params.Problems {
			refused.Problems = append(refused.Problems,
				operations.SpecProblem{Key: p.Key, Message: p.Message})
		}
		return refused.as(http.StatusUnprocessableEntity, RefusedParams)
	case errors.As(err, &spec):
		refused.Problems = spec.Problems
		return refused.as(http.StatusUnprocessableEntity, RefusedJob)
	case errors.As(err, &mistakes):
		return refused.as(http.StatusUnprocessableEntity, RefusedConfig)
	case errors.As(err, &paused):
		refused.Paused, refused.Option = &paused.Pause, map[string]any{"even_paused": true}
		return refused.as(http.StatusConflict, RefusedPaused)
	case errors.As(err, &busy):
		refused.WaitsFor = &storage.RunBlocker{Reason: busy.Blocker.Reason,
			Blocker: *records.PlainBlocker(&busy.Blocker.Blocker)}
		return refused.as(http.StatusConflict, RefusedBusy)
	case errors.Is(err, storage.ErrBusy): // no replica can start the run
		return refused.as(http.StatusConflict, RefusedBusy)
	case errors.Is(err, storage.ErrInTransaction):
		refused.Option = map[string]any{"end_transaction": true}
		return refused.as(http.StatusConflict, RefusedInTransaction)
	case errors.Is(err, storage.ErrKeyUsed):
		return refused.as(http.StatusUnprocessableEntity, RefusedKeyUsed)
	case errors.Is(err, storage.ErrHasDependents):
		return refused.as(http.StatusConflict, RefusedDependents)
	case errors.Is(err, storage.ErrFromConfig):
		return refused.as(http.StatusConflict, RefusedFromConfig)
	case errors.Is(err, storage.ErrConflict):
		return refused.as(http.StatusConflict, RefusedConflict)
	case errors.Is(err, storage.ErrNotFound):
		return refused.as(http.StatusNotFound, RefusedNotFound)
	case errors.Is(err, errNoActions), errors.Is(err, errors.ErrUnsupported):
		return refused.as(http.StatusNotImplemented, RefusedUnsupported)
	}
	return 0, refused
}

// as returns the status and the refusal with a code.
func (r refusedAction) as(status int, code Refusal) (int, refusedAction) {
	r.Code = code
	return status, r
}

// action reads the body into fields, runs do, and writes its result as JSON.
func action[T any](s base, w http.ResponseWriter, r *http.Request, fields map[string]any,
	do func(ctx context.Context, ops *operations.Operations) (T, error)) {
	var value T
	err := s.readAction(r, fields)
	if err == nil {
		err = s.Queries.Run(r.Context(), func(ctx context.Context) (err error) {
			value, err = do(ctx, s.options.Operations)
			return err
		})
	}
	if err == nil {
		s.StoreAnswered()
		s.WriteJSON(w, http.StatusOK, value)
		return
	}
	s.refuseAction(w, r, err, refusedAction{})
}

// refuseAction writes the reason why an action was not done.
func (s base) refuseAction(w http.ResponseWriter, r *http.Request, err error,
	more refusedAction) {
	s.Guard.Denied(r, err)
	status, refused := refusedActionOf(err)
	refused.Holders = more.Holders
	if status == 0 {
		s.StoreFailed(r.Context(), err)
		status, refused.Error = http.StatusServiceUnavailable, pages.StoreError(err)
	}
	s.WriteJSON(w, status, refused)
}

func (s base) readAction(r *http.Request, fields map[string]any) error {
	if s.options.Operations == nil {
		return errNoActions
	}
	if err := param.Only(r); err != nil {
		return err
	}
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 1 {
		return param.Errorf("Idempotency-Key is given %d times, expected once",
			len(keys))
	}
	return readBody(r, fields)
}

// readBody reads a body that is empty or a JSON object. Each key must be in fields, and its value
// must have the type that the field points to.
func readBody(r *http.Request, fields map[string]any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil || given == nil {
		return param.Errorf("The body can't be read, expected an object in JSON%s", syntaxOf(err))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		into, known := fields[name]
		if !known {
			return param.Errorf("field %q is unknown, expected %s", words.Cut(name, 100),
				expectedFields(fields))
		}
		if err := json.Unmarshal(given[name], into); err != nil {
			return param.Errorf("%s is %s, expected %s", name,
				words.Cut(string(given[name]), 100), fieldWords(into))
		}
	}
	return nil
}

func syntaxOf(err error) string {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Sprintf(": %s at byte %d", syntax.Error(), syntax.Offset)
	}
	return ""
}

func expectedFields(fields map[string]any) string {
	if len(fields) == 0 {
		return "none"
	}
	return "some of " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

func fieldWords(into any) string {
	switch into.(type) {
	case *string, **string:
		return "text"
	case *bool:
		return "true or false"
	case *int64, **int64, *jobs.Token:
		return "a whole number"
	}
	return "a value of another type"
}
