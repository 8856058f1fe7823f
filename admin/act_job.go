package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func (s jobPages) triggerJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	var wait, at, delay *string
	request := storage.TriggerRequest{Job: r.PathValue("name"),
		Key: r.Header.Get("Idempotency-Key")}
	fields := map[string]any{"reason": &reason, "params": &request.Params,
		"even_paused": &request.EvenPaused, "wait": &wait, "at": &at, "delay": &delay}
	action(s.base, w, r, fields, func(ctx context.Context,
		ops *operations.Operations) (storage.Triggered,
		error) {
		if wait != nil {
			if err := setWait(&request, *wait); err != nil {
				return storage.Triggered{}, err
			}
		}
		if at != nil {
			if err := setAt(&request, *at); err != nil {
				return storage.Triggered{}, err
			}
		}
		if delay != nil {
			if err := setDelay(&request, *delay); err != nil {
				return storage.Triggered{}, err
			}
		}
		a := s.acting(r, "api", reason)
		a.Key = "" // the request for the run has the key
		answer, err := ops.Trigger(ctx, a, request)
		return plainTriggered(answer), err
	})
}

// setWait parses the longest wait of the run, or returns a *storage.BadInputError.
func setWait(r *storage.TriggerRequest, text string) error {
	wait, err := time.ParseDuration(text)
	if err != nil {
		return &storage.BadInputError{Field: "wait",
			Problem: fmt.Sprintf("found %q, expected a duration such as 0 or 10m", words.Cut(text,
				100))}
	}
	r.Wait = &wait
	return nil
}

// setAt parses the time of the run, or returns a *storage.BadInputError.
func setAt(r *storage.TriggerRequest, text string) error {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return &storage.BadInputError{Field: "at",
			Problem: fmt.Sprintf("found %q, expected a time such as 2026-03-14T02:30:00Z",
				words.Cut(text, 100))}
	}
	r.At = at
	return nil
}

// setDelay parses the delay of the run, or returns a *storage.BadInputError.
func setDelay(r *storage.TriggerRequest, text string) error {
	delay, err := time.ParseDuration(text)
	if err != nil {
		return &storage.BadInputError{Field: "delay",
			Problem: fmt.Sprintf("found %q, expected a duration such as 10m or 36h",
				words.Cut(text, 100))}
	}
	r.Delay = delay
	return nil
}

// plainTriggered applies Plain to the answer to a trigger.
func plainTriggered(t storage.Triggered) storage.Triggered {
	t.Record = records.Plain(t.Record)
	if t.WaitsFor != nil {
		t.WaitsFor = &storage.RunBlocker{Blocker: *records.PlainBlocker(&t.WaitsFor.Blocker),
			Reason: t.WaitsFor.Reason}
	}
	return t
}

// putJobJSON adds a job, or changes an added job that has the version given.
func (s jobPages) putJobJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	var put putRequest
	fields := map[string]any{"reason": &reason, "job": &put.job, "text": &put.text,
		"version": &put.version, "replace": &put.replace}
	action(s.base, w, r, fields, func(ctx context.Context, ops *operations.Operations) (
		storage.Spec, error) {
		text, version, err := put.read()
		if err != nil {
			return storage.Spec{}, err
		}
		spec, err := ops.PutJob(ctx, s.acting(r, "api", reason), text, version)
		if put.text == nil {
			err = withoutPositions(err)
		}
		return spec, err
	})
}

// putRequest is the body of a request to add or change a job.
type putRequest struct {
	job     json.RawMessage // the job as an object
	text    *string         // the job as YAML or JSON, instead
	version *int64
	replace bool // change an added job of any version
}

// read returns the text of the job and the version that the sender has seen.
func (p putRequest) read() (text []byte, version int64, err error) {
	switch {
	case p.text != nil && p.job != nil:
		return nil, 0, param.Errorf("job and text are given, expected one of them")
	case p.text != nil:
		text = []byte(*p.text)
	case len(p.job) == 0 || p.job[0] != '{':
		return nil, 0, param.Errorf(
			"job is missing, expected an object: the job as a configuration has it")
	default:
		text = p.job
	}
	switch {
	case p.version != nil && p.replace:
		return nil, 0, param.Errorf("version and replace are given, expected one of them")
	case p.replace:
		return text, operations.AnyVersion, nil
	case p.version == nil:
		return text, 0, nil
	case *p.version < 0:
		return nil, 0, param.Errorf("version is %d, expected that of the job "+
			"that is changed, or 0 for a new one", *p.version)
	}
	return text, *p.version, nil
}

// withoutPositions removes the positions of mistakes in a job, because those in the body of a
// request do not help its sender.
func withoutPositions(err error) error {
	var wrong *operations.SpecError
	if !errors.As(err, &wrong) {
		return err
	}
	plain := &operations.SpecError{}
	for _, p := range wrong.Problems {
		plain.Problems = append(plain.Problems,
			operations.SpecProblem{Key: p.Key, Message: p.Message})
	}
	return plain
}

func (s jobPages) removeJobJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	version := int64(operations.AnyVersion)
	action(s.base, w, r, map[string]any{"reason": &reason, "version": &version},
		func(ctx context.Context, ops *operations.Operations) (removed, error) {
			name := r.PathValue("name")
			return removed{Job: name, Removed: true}, ops.RemoveJob(ctx, s.acting(r, "api", reason),
				name, version)
		})
}

// removed names a job that was removed.
type removed struct {
	Job     string `json:"job"`
	Removed bool   `json:"removed"`
}

// specJSON serves the stored definition of an added job, for clients that change it.
func (s jobPages) specJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (storage.Spec, error) {
		if err := param.Only(r); err != nil {
			return storage.Spec{}, err
		}
		if s.options.Operations == nil {
			return storage.Spec{}, fmt.Errorf("added jobs: %w here", storage.ErrNotFound)
		}
		name := r.PathValue("name")
		spec, err := s.reader.spec(ctx, name)
		if err == nil && spec == nil {
			err = fmt.Errorf("added job %q: %w", words.Cut(name, 200), storage.ErrNotFound)
		}
		if err != nil {
			return storage.Spec{}, err
		}
		return *spec, nil
	})
}
