package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// maxBulk bounds the selected jobs or runs of one bulk action. An address has their names.
	maxBulk = 100
	// bulkTimeout bounds a bulk action. It is shorter than the timeout of an answer.
	bulkTimeout = 20 * time.Second
)

// bulkAction is an action on several jobs or runs.
type bulkAction struct {
	name       string // the last part of the address of its page
	title      string // of the page and its button, with the number of items
	past       string // what was done to the items
	added      string // the end of the notice
	keep       string // text of the link that leaves the form
	bad        bool   // destructive
	runs       bool   // about runs, not about jobs
	permission permission.Permission
	// left says why the action leaves an item alone, in a sentence; "": it does not.
	left func(i bulkItem) string
	do   func(ctx context.Context, a storage.Action, i bulkItem) error
}

// itemParam is the parameter of the address that names an item.
func (b bulkAction) itemParam() string {
	if b.runs {
		return "run"
	}
	return "job"
}

// count returns a number of items in words.
func (b bulkAction) count(n int) string { return words.Figure(n, b.itemParam(), b.itemParam()+"s") }

// list is the page on which the items were selected.
func (b bulkAction) list() string { return "/" + b.itemParam() + "s" }

func (s bulkPages) pausePage(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, bulkAction{name: "pause", title: "Pause %s", past: "paused", bad: true,
		permission: permission.Pause, left: leftByPause,
		do: func(ctx context.Context, a storage.Action, i bulkItem) error {
			_, err := s.options.Operations.Pause(ctx, a, i.target())
			return err
		}})
}

func (s bulkPages) resumePage(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, bulkAction{name: "resume", title: "Resume %s", past: "resumed",
		permission: permission.Pause, left: leftByResume,
		do: func(ctx context.Context, a storage.Action, i bulkItem) error {
			_, err := s.options.Operations.Resume(ctx, a, i.target())
			return err
		}})
}

func (s bulkPages) triggerPage(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, bulkAction{name: "trigger", title: "Run %s now", past: "triggered",
		added:      " Replicas start the runs, mostly within a second.",
		permission: permission.Trigger, left: leftByTrigger,
		do: func(ctx context.Context, a storage.Action, i bulkItem) error {
			return s.trigger(ctx, a, storage.TriggerRequest{Job: i.Job.Name})
		}})
}

func (s bulkPages) againPage(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, bulkAction{name: "again", title: "Run %s again", past: "repeated",
		added: " Replicas start the new runs, mostly within a second.",
		runs:  true, permission: permission.Trigger, left: leftByAgain, do: s.again})
}

func (s bulkPages) cancelPage(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, bulkAction{name: "cancel", title: "Cancel %s", past: "cancelled",
		added: " The handlers of running runs have 10 s to return.", keep: "Keep runs",
		bad: true, runs: true, permission: permission.Cancel, left: leftByCancel,
		do: func(ctx context.Context, a storage.Action, i bulkItem) error {
			_, err := s.options.Operations.Cancel(ctx, a, i.ID)
			return err
		}})
}

// trigger adds a run. The key of the action becomes that of the run.
func (s bulkPages) trigger(ctx context.Context, a storage.Action,
	request storage.TriggerRequest) error {
	request.Key, a.Key = a.Key, ""
	_, err := s.options.Operations.Trigger(ctx, a, request)
	return err
}

// again adds a run with the job and the params of a run that has ended.
func (s bulkPages) again(ctx context.Context, a storage.Action, i bulkItem) error {
	run, err := runToRepeat(ctx, s.reader, i.ID)
	if err != nil {
		return err
	}
	return s.trigger(ctx, a, storage.TriggerRequest{Job: run.Job, Params: run.Params})
}

// answer answers the GET and the POST of a bulk action. The form has the items that the action does
// not leave alone: in the address to which it is sent, or in a field if there is a filter.
func (s bulkPages) answer(w http.ResponseWriter, r *http.Request, b bulkAction) {
	chosen, err := s.selection(r, b)
	if err != nil {
		s.refuseUnauthorized(w, r, err)
		return
	}
	back := b.back(r.URL.Query().Get("back"))
	answerAction(s.base, w, r, actionPage[bulkView]{
		template: "bulk.html", section: b.list(), title: fmt.Sprintf(b.title, chosen.title(b)),
		params: []string{b.itemParam(), "back", "matching"}, lists: []string{b.itemParam()},
		fields: chosen.fields(), unbounded: true,
		load: func(ctx context.Context, p cluster.Snapshot) (bulkView, error) {
			return s.view(ctx, p.Now, b, chosen)
		},
		form: func(f *form, known *bulkView) {
			f.Button, f.Bad, f.Back, f.Keep = f.Title, b.bad, back, b.keep
			if f.Results = resultsOf(f.err, known); f.Results != nil {
				chosen.completeResult(f, b)
				return
			}
			if known == nil {
				return
			}
			known.judge(r.Context(), b)
			f.Idle = f.Idle || len(known.Acts) == 0
			if len(known.Acts) == 0 {
				return
			}
			f.Title = fmt.Sprintf(b.title, b.count(len(known.Acts)))
			f.Button = f.Title
			if chosen.filter != nil {
				f.hidden("items", b.itemsField(known.Acts))
			} else {
				f.Action = b.address(known.Acts, back)
			}
		},
		do: func(ctx context.Context, a storage.Action, sent url.Values) (outcome, error) {
			items, err := chosen.submitted(b, sent)
			if err != nil {
				return outcome{}, err
			}
			done, err := s.act(ctx, b, a, items, back)
			if failed := new(bulkError); errors.As(err, &failed) {
				chosen.items = failed.items(maxBulk)
			}
			return done, err
		},
	})
}

// items returns the jobs or runs with these names, each once.
func (b bulkAction) items(names []string, most int) ([]bulkItem, error) {
	var items []bulkItem
	seen := make(map[string]bool)
	for _, name := range names {
		item := bulkItem{}
		if b.runs && name != "" {
			id, err := uuid.Parse(name)
			if err != nil {
				return nil, param.Errorf("run is %q, expected a run's id, a UUID",
					words.Cut(name, 100))
			}
			item.ID = id
		} else {
			item.Job.Name = name
		}
		if item.name() == "" || seen[item.name()] {
			continue
		}
		seen[item.name()] = true
		items = append(items, item)
	}
	switch {
	case len(items) == 0:
		return nil, param.Errorf("No %ss are selected. Go back and tick at least one box.",
			b.itemParam())
	case len(items) > most:
		return nil, param.Errorf("%s are selected, expected at most %s. Go back and select fewer.",
			b.count(len(items)), words.Count(most))
	}
	return items, nil
}

// back returns the address of the list on which the items were selected: the given one, if it is a
// page of that list.
func (b bulkAction) back(address string) string {
	if path, _, _ := strings.Cut(address, "?"); path == b.list() &&
		len(address) <= param.MaxTextLength {
		if u, err := url.Parse(address); err == nil {
			return u.String()
		}
	}
	return b.list()
}

// address returns the page of the action on these items.
func (b bulkAction) address(items []bulkItem, back string) string {
	query := url.Values{"back": {back}}
	for _, i := range items {
		query.Add(b.itemParam(), i.name())
	}
	return param.Address("/bulk/"+b.name, query)
}

// act performs the action on each item in turn, each in its own transaction with its own entry in
// the audit log. If the store does not answer or is not queried, the items after it are not tried.
func (s bulkPages) act(parent context.Context, b bulkAction, a storage.Action, items []bulkItem,
	back string) (outcome, error) {
	if err := a.Check(); err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(parent, bulkTimeout)
	defer cancel()
	result := &bulkError{action: b, results: make([]bulkResult, len(items))}
	key, failed := a.Key, false
	for n, item := range items {
		result.results[n].bulkItem = item
		if result.stopped != nil {
			result.results[n].Untried = true
			continue
		}
		a.Key = itemKey(key, item)
		err := s.Queries.Run(ctx, func(ctx context.Context) error { return b.do(ctx, a, item) })
		if result.results[n].Err = err; err == nil {
			continue
		}
		failed = true
		if status, _ := refusedActionOf(err); status == 0 {
			result.stopped = err
		}
	}
	if failed {
		return outcome{}, result
	}
	done := fmt.Sprintf("%s %s.%s", words.Title(b.past), b.count(len(items)), b.added)
	return outcome{back, done}, nil
}

// itemKey is the idempotency key of one item, so that a form that is sent again acts once on each.
func itemKey(key string, i bulkItem) string {
	sum := sha256.Sum256([]byte(key + "\n" + i.name()))
	return hex.EncodeToString(sum[:16])
}
