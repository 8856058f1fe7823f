package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pageWebhooks is the number of deliveries of a page, and of the API's answer without a limit.
const pageWebhooks = 50

// webhookParams are the parameters of the list of deliveries.
func webhookParams() []string {
	return []string{"webhook", "run", "given_up", "limit", "before", "after"}
}

// webhookCursors page from the newest to the oldest.
func webhookCursors() param.Cursors { return param.Cursors{Next: "before", Previous: "after"} }

func (s webhookPages) webhooksJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]storage.Undelivered, error) {
		p, err := param.Read(r, webhookParams()...)
		if err != nil {
			return nil, err
		}
		filter, err := readWebhookFilter(p, defaultRuns)
		if err != nil {
			return nil, err
		}
		list, _, err := s.reader.undelivered(ctx, filter)
		if err == nil && len(list) > 0 {
			full := len(list) == filter.Limit // there may be more
			back := filter.After != nil && filter.Before == nil
			param.SetLinks(w, p.Pager(r.URL.EscapedPath(), webhookCursors(),
				deliveryCursor(list[0]),
				deliveryCursor(list[len(list)-1]), back || full,
				filter.Before != nil || back && full))
		}
		return list, err
	})
}

// webhooksView is the page of failed deliveries.
type webhooksView struct {
	Deliveries []storage.Undelivered
	Stored     bool // the store records deliveries
	Pager      param.Pager
	Filter     webhookFields
}

// webhookFields are the submitted fields of the filter.
type webhookFields struct{ Webhook, Run, GivenUp string }

// Any reports whether a filter is set.
func (f webhookFields) Any() bool { return f != webhookFields{} }

func (s webhookPages) webhooksPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(webhookParams(), "refresh")...)
	var filter storage.UndeliveredFilter
	if err == nil {
		filter, err = readWebhookFilter(p, pageWebhooks)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[webhooksView]{
		Template: "webhooks.html", Section: "/webhooks", Title: "Webhooks",
		Load: func(ctx context.Context, _ cluster.Snapshot) (v webhooksView, err error) {
			v.Filter = webhookFields{filter.Webhook, p.Get("run"), p.Get("given_up")}
			asked := filter
			// one extra row shows whether there is another page
			asked.Limit = min(filter.Limit+1, storage.MaxBatch)
			list, stored, err := s.reader.undelivered(ctx, asked)
			if v.Stored = stored; err != nil {
				return v, err
			}
			list, on, back := param.Trim(list, filter.Limit, filter.Before != nil,
				filter.After != nil)
			if v.Deliveries = list; len(list) > 0 {
				v.Pager = p.Pager(r.URL.EscapedPath(), webhookCursors(), deliveryCursor(list[0]),
					deliveryCursor(list[len(list)-1]), on, back)
			}
			return v, nil
		},
	})
}

func readWebhookFilter(p param.Set, limit int) (f storage.UndeliveredFilter, err error) {
	if f.Webhook, err = p.Text("webhook"); err != nil {
		return f, err
	}
	if text := p.Get("run"); text != "" {
		if f.Run, err = uuid.Parse(text); err != nil {
			return f, param.Errorf("run is %q, expected a run's id, a UUID",
				words.Cut(text, 100))
		}
	}
	given, err := param.OneOf(p, "given_up", []string{"yes"})
	if err != nil {
		return f, err
	}
	f.GivenUp = given != ""
	if f.Limit, err = p.Limit(limit); err != nil {
		return f, err
	}
	if f.Before, err = p.Cursor("before"); err != nil {
		return f, err
	}
	f.After, err = p.Cursor("after")
	return f, err
}

func deliveryCursor(u storage.Undelivered) string { return param.EncodeCursor(u.CreatedAt, u.ID) }

// undelivered returns the failed deliveries, never nil, and whether the store records them.
func (r *reader) undelivered(ctx context.Context,
	f storage.UndeliveredFilter) (list []storage.Undelivered, stored bool, err error) {
	list = []storage.Undelivered{}
	if r.ops == nil {
		return list, false, nil
	}
	found, err := r.ops.Undelivered(ctx, f)
	if errors.Is(err, errors.ErrUnsupported) {
		return list, false, nil
	}
	var bad *storage.BadInputError
	if errors.As(err, &bad) {
		return nil, true, param.Errorf("%s", bad)
	}
	if err != nil {
		return nil, true, fmt.Errorf("deliveries: %w", err)
	}
	for _, u := range found {
		u.CreatedAt, u.NextAt, u.GaveUpAt = u.CreatedAt.UTC(), records.InUTC(u.NextAt),
			records.InUTC(u.GaveUpAt)
		list = append(list, u)
	}
	return list, true, nil
}

// deliverAgainJSON repeats a delivery.
func (s webhookPages) deliverAgainJSON(w http.ResponseWriter, r *http.Request) {
	var reason string
	action(s.base, w, r, map[string]any{"reason": &reason},
		func(ctx context.Context, ops *operations.Operations) (storage.Undelivered, error) {
			id, err := pathID(r, "id", "a delivery's id")
			if err != nil {
				return storage.Undelivered{}, err
			}
			return ops.DeliverAgain(ctx, s.acting(r, "api", reason), id)
		})
}

// deliverView describes the delivery to repeat.
type deliverView struct{ Delivery *storage.Undelivered }

// deliverAgainPage repeats a failed delivery.
func (s webhookPages) deliverAgainPage(w http.ResponseWriter, r *http.Request) {
	id, err := pathID(r, "id", "a delivery's id")
	var filter storage.UndeliveredFilter
	if err == nil {
		filter, err = readWebhookFilter(param.Set{Values: url.Values{"run": {r.URL.Query().Get(
			"run")}}}, storage.MaxBatch)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s.base, w, r, actionPage[deliverView]{
		template: "deliver.html", section: "/webhooks", title: "Deliver again",
		params: []string{"run"},
		load: func(ctx context.Context, _ cluster.Snapshot) (v deliverView, err error) {
			list, _, err := s.reader.undelivered(ctx, filter)
			withID := func(u storage.Undelivered) bool { return u.ID == id }
			if at := slices.IndexFunc(list, withID); at >= 0 {
				v.Delivery = &list[at]
			}
			return v, err
		},
		form: func(f *form, known *deliverView) {
			f.Button, f.Back = "Deliver event again", "/webhooks"
			f.Moot = known != nil && known.Delivery == nil
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			u, err := s.options.Operations.DeliverAgain(ctx, a, id)
			return outcome{"/webhooks", fmt.Sprintf("%s gets the event again within about a "+
				"second. A delivery that succeeds leaves this list.",
				words.Title(words.Cut("webhook "+u.Webhook, 100)))}, err
		},
	})
}
