package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// triggerView describes the effect of a trigger.
type triggerView struct {
	Job    Job
	Active []storage.Record // waiting and running runs of the job, oldest first
	Held   []Lock           // locks of others on resources of the job
	Again  *storage.Record  // the run to repeat, or nil
	// Hidden says that the run to repeat has params that the sender of the request may not view.
	Hidden bool
	// Overridable are the params that the job lists; nil if this replica does not know the job.
	Overridable []string
}

// triggerPage adds a run of a job.
func (s jobPages) triggerPage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	answerAction(s.base, w, r, actionPage[triggerView]{
		template: "trigger.html", section: "/jobs", title: "Run now " + words.Cut(name, 100),
		fields: triggerFields(),
		load: func(ctx context.Context, _ cluster.Snapshot) (triggerView, error) {
			return s.triggerView(ctx, name)
		},
		form: func(f *form, known *triggerView) {
			triggerForm(f, known, pages.May(r.Context(), permission.Pause))
			f.Button, f.Back = "Run now", param.JobPath(name)
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			return s.triggered(ctx, a, name, sent)
		},
	})
}

// againPage adds a run with the job and params of a run that has ended.
func (s jobPages) againPage(w http.ResponseWriter, r *http.Request) {
	id, err := runID(r)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s.base, w, r, actionPage[triggerView]{
		template: "trigger.html", section: "/runs", title: "Run again", fields: triggerFields(),
		load: func(ctx context.Context, _ cluster.Snapshot) (triggerView, error) {
			run, err := s.reader.Run(ctx, id)
			if err != nil {
				return triggerView{}, err
			}
			v, err := s.triggerView(ctx, run.Job)
			v.Again = &run
			return v, err
		},
		form: func(f *form, known *triggerView) {
			if known != nil && known.Again.Params != nil &&
				!pages.May(r.Context(), permission.ViewParams) {
				again := *known.Again
				again.Params, known.Again, known.Hidden = nil, &again, true
			}
			triggerForm(f, known, pages.May(r.Context(), permission.Pause))
			f.Button, f.Back = "Run again", param.RunPath(id)
			f.Moot = f.Moot || known != nil && (known.Hidden || !known.Again.State.Final())
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			run, err := runToRepeat(ctx, s.reader, id)
			if err != nil {
				return outcome{}, err
			}
			return s.triggered(ctx, a, run.Job, sent)
		},
	})
}

// runToRepeat returns a run that has ended and that the sender of the request may run again.
func runToRepeat(ctx context.Context, r *reader, id uuid.UUID) (storage.Record, error) {
	run, err := r.Run(ctx, id)
	if err != nil {
		return run, err
	}
	for _, p := range (bulkItem{OwnParams: run.Params != nil}).needs(permission.Trigger) {
		if err := permission.RequireOn(ctx, p, func(ctx context.Context) (permission.Target,
			error) {
			return operations.JobTarget(ctx, r.Store, run.Job)
		}); err != nil {
			return run, err
		}
	}
	if !run.State.Final() {
		return run, fmt.Errorf("run %s has not ended, it is %s: %w", id, run.State,
			storage.ErrConflict)
	}
	return run, nil
}

// triggerView describes a trigger of the job.
func (s jobPages) triggerView(ctx context.Context, name string) (triggerView, error) {
	v, err := s.reader.triggerView(ctx, name)
	if err != nil {
		return v, err
	}
	v.Overridable, err = s.options.Operations.Overridable(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		err = nil
	}
	return v, err
}

func (r *reader) triggerView(ctx context.Context, name string) (v triggerView, err error) {
	if !storable(name) {
		return v, fmt.Errorf("job %q: %w", words.Cut(name, 200), storage.ErrNotFound)
	}
	view, err := r.Store.Job(ctx, name)
	if err != nil {
		return v, fmt.Errorf("job %q: %w", words.Cut(name, 200), err)
	}
	v.Job = newJob(&r.schedules, view, nil)
	if v.Active, err = r.Runs(ctx, storage.RunFilter{Job: name, Later: new(false),
		States: []jobs.State{jobs.Waiting, jobs.Running}, Limit: storage.MaxBatch}); err != nil {
		return v, err
	}
	slices.SortFunc(v.Active, records.OlderFirst)
	set, err := r.lock.Grants(ctx)
	if err != nil {
		return v, err
	}
	for _, lock := range set.Locks {
		if locks.ConflictsWith(view.Resources, lock) {
			v.Held = append(v.Held, lock)
		}
	}
	return v, nil
}

func triggerFields() []string { return []string{"params", "start", "wait", "even_paused"} }

// triggerForm adds the fields. Only people who may pause the job can start a run despite a pause.
func triggerForm(f *form, known *triggerView, mayPause bool) {
	params, paused := "", errors.Is(f.err, storage.ErrPaused)
	hint := `As JSON, such as {"rows": 100}. Each key overrides the same key of the job. ` +
		"Empty: the params of the job."
	withParams := known == nil || f.typed("params", "") != ""
	if known != nil {
		if names := known.Overridable; len(names) > 0 {
			hint += " A trigger can override " + words.Cut(strings.Join(names, ", "), 300) + "."
			withParams = true
		}
		paused = paused || len(known.Job.Pauses) > 0
		f.Moot = known.Job.Removed
		if known.Again != nil && known.Again.Params != nil {
			params = words.Indented(known.Again.Params)
			withParams = true
		}
	}
	if withParams {
		f.text("params", "Params of this run", hint, params, 5, false)
	}
	f.line("start", "Start at", "A time such as 2026-03-14T02:30:00Z, or a delay such as 2h. "+
		"Empty: now.", 30)
	f.line("wait", "Longest wait",
		"Longest wait before the start, such as 10m; then the run is skipped. "+
			"0: no run is added if something blocks it. Empty: no limit.",
		20)
	switch {
	case paused && mayPause:
		f.check("even_paused", "Start the run despite the pause", true)
	case paused:
		f.Idle, f.Advice = true, "You need the permission to pause the job."
	}
	if errors.Is(f.err, storage.ErrKeyUsed) {
		f.renew()
		f.Advice =
			"This form was submitted before with other values and has added a run. Submit again " +
				"to add another run."
	}
}

// setBegin parses the time or the delay of the run, or returns a *storage.BadInputError.
func setBegin(r *storage.TriggerRequest, text string) (err error) {
	if r.Delay, err = time.ParseDuration(text); err == nil {
		return nil
	}
	if r.At, err = time.Parse(time.RFC3339, text); err != nil {
		return &storage.BadInputError{Field: "start", Problem: fmt.Sprintf("found %q, expected a "+
			"time such as 2026-03-14T02:30:00Z or a delay such as 2h", words.Cut(text, 100))}
	}
	return nil
}

// triggered adds the run. The form's key becomes the run's key.
func (s jobPages) triggered(ctx context.Context, a storage.Action, job string,
	sent url.Values) (outcome, error) {
	request := storage.TriggerRequest{Job: job, Key: a.Key,
		EvenPaused: sent.Get("even_paused") != ""}
	if text := strings.TrimSpace(sent.Get("params")); text != "" {
		request.Params = json.RawMessage(text)
		if err := json.Unmarshal(request.Params, new(any)); err != nil {
			return outcome{}, &storage.BadInputError{Field: "params",
				Problem: "expected an object in JSON" + syntaxOf(err)}
		}
	}
	if text := strings.TrimSpace(sent.Get("start")); text != "" {
		if err := setBegin(&request, text); err != nil {
			return outcome{}, err
		}
	}
	if text := strings.TrimSpace(sent.Get("wait")); text != "" {
		if err := setWait(&request, text); err != nil {
			return outcome{}, err
		}
	}
	a.Key = ""
	run, err := s.options.Operations.Trigger(ctx, a, request)
	if err != nil {
		return outcome{}, err
	}
	done := fmt.Sprintf("%s was triggered: this is the run. A replica starts it, mostly within "+
		"a second.", words.Cut(job, 100))
	switch {
	case run.WaitSince.After(run.CreatedAt):
		done = fmt.Sprintf("%s was triggered: this is the run. It starts at %s.",
			words.Cut(job, 100), words.UTC(run.WaitSince))
	case run.WaitsFor != nil:
		done = fmt.Sprintf("%s was triggered: this is the run. It waits: %s.", words.Cut(job, 100),
			words.Cut(run.WaitsFor.Words("is held by"), 500))
	}
	return outcome{param.RunPath(run.ID), done}, nil
}
