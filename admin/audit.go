package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pageAudit is the number of entries of a page, and of the API's answer without a limit.
const pageAudit = 100

// auditParams are the parameters of the page of the audit log.
func auditParams() []string { return []string{"actor", "action", "target", "limit", "before"} }

// auditAPIParams are the parameters of the API's audit log.
func auditAPIParams() []string {
	return append(auditParams(), "from", "until", "order", "after")
}

// auditOrders are the orders of the audit log. The first is the default.
func auditOrders() []string { return []string{"newest", "oldest"} }

// AuditActions returns the names of all actions and events in the audit log.
func AuditActions() []string {
	return append([]string{"pause", "resume", "trigger", "cancel", "release", "drain", "undrain",
		"remove_replica", "put_job", "remove_job", "deliver_again", "backfill", "cancel_backfill"},
		storage.AuditEvents()...)
}

func (s auditPages) auditJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]storage.Audited, error) {
		p, err := param.Read(r, auditAPIParams()...)
		if err != nil {
			return nil, err
		}
		filter, err := readAuditFilter(p)
		if err != nil {
			return nil, err
		}
		if filter, err = readAuditRange(p, filter); err != nil {
			return nil, err
		}
		lines, err := audited(ctx, s.options.Operations, filter)
		if permission.Require(ctx, permission.EditJobs,
			permission.Target{Kind: permission.Everything}) != nil {
			redactSpecs(lines)
		}
		if err == nil && len(lines) == filter.Limit {
			cursors := auditCursors()
			if filter.OldestFirst {
				cursors = param.Cursors{Next: "after"}
			}
			param.SetLinks(w, p.Pager(r.URL.EscapedPath(), cursors, "",
				auditCursor(lines[len(lines)-1]), true, false))
		}
		return lines, err
	})
}

// auditView is the page of the audit log.
type auditView struct {
	Lines  []storage.Audited
	Stored bool
	Pager  param.Pager
	Filter auditFields
	First  bool   // it is the first page
	News   string // number of entries that came after those of the page; "" for none
}

// auditFields are the submitted fields of the filter.
type auditFields struct{ Actor, Action, Target string }

// Any reports whether a filter is set.
func (f auditFields) Any() bool { return f != auditFields{} }

// AllActions lists the actions for the form.
func (auditFields) AllActions() []string { return AuditActions() }

func (s auditPages) auditPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(auditParams(), "refresh", param.Newest)...)
	var filter storage.AuditFilter
	var newest time.Time
	if err == nil {
		filter, err = readAuditFilter(p)
	}
	if err == nil {
		newest, err = p.Time(param.Newest)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	p.Del(param.Newest)
	pages.Show(s.Site, w, r, pages.Page[auditView]{
		Template: "audit.html", Section: "/audit", Title: "Audit", Live: true,
		Fields: true,
		Topics: []storage.Topic{storage.TopicAudit},
		Load: func(ctx context.Context, _ cluster.Snapshot) (v auditView, err error) {
			v.Filter, v.Stored = auditFields{filter.Actor, filter.Action, filter.Target},
				s.options.Operations != nil
			asked := filter
			if v.First = filter.Before == nil; v.First {
				v.News, err = keepAuditTo(ctx, s.options.Operations, &asked, newest)
				if err != nil {
					return v, err
				}
			}
			// one extra row shows whether there is another page
			asked.Limit = min(filter.Limit+1, storage.MaxBatch)
			lines, err := audited(ctx, s.options.Operations, asked)
			if err != nil {
				return v, err
			}
			redactSpecs(lines) // the cached page is for everybody
			lines, on, back := param.Trim(lines, filter.Limit, filter.Before != nil, false)
			if v.Lines = lines; len(lines) > 0 {
				v.Pager = p.Pager(r.URL.EscapedPath(), auditCursors(), "",
					auditCursor(lines[len(lines)-1]), on, back)
			}
			return v, nil
		},
		Complete: func(v *auditView, f *pages.Frame) {
			if v.First && len(v.Lines) > 0 {
				f.Newest = newestText(newest, v.Lines[0].At)
			}
		},
	})
}

// keepAuditTo narrows the filter of a page to the entries up to the newest one that the page showed
// before, and returns the number of newer entries, or "" if there are none. A zero time changes
// nothing.
func keepAuditTo(ctx context.Context, ops *operations.Operations, f *storage.AuditFilter,
	newest time.Time) (string, error) {
	if newest.IsZero() {
		return "", nil
	}
	f.Until = newest.Add(time.Microsecond) // the precision of the stores
	news := *f
	news.Since, news.Until, news.Limit = f.Until, time.Time{}, maxNews+1
	lines, err := audited(ctx, ops, news)
	return newsOf(len(lines)), err
}

// auditCursors page from the newest entry to the oldest. There is no previous page, only the first.
func auditCursors() param.Cursors { return param.Cursors{Next: "before"} }

// audited returns entries of the audit log, never nil. Without operations there are none.
func audited(ctx context.Context, ops *operations.Operations,
	f storage.AuditFilter) ([]storage.Audited, error) {
	lines := []storage.Audited{}
	if ops == nil {
		return lines, nil
	}
	found, err := ops.Audit(ctx, f)
	var bad *storage.BadInputError
	if errors.As(err, &bad) {
		return nil, param.Errorf("%s", bad)
	}
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	for _, line := range found {
		line.At = line.At.UTC()
		lines = append(lines, line)
	}
	return lines, nil
}

// redactSpecs removes the specs of added jobs, which only operators may read.
func redactSpecs(lines []storage.Audited) {
	for i := range lines {
		if invalid := lines[i].InvalidDetail; len(invalid) > 0 { // may have a definition too
			lines[i].Detail, lines[i].InvalidDetail = invalid, nil
		}
		lines[i].Detail = redact.Field(lines[i].Detail, "spec")
	}
}

func readAuditFilter(p param.Set) (f storage.AuditFilter, err error) {
	if f.Actor, err = p.Text("actor"); err != nil {
		return f, err
	}
	if f.Action, err = param.OneOf(p, "action", AuditActions()); err != nil {
		return f, err
	}
	if f.Target, err = p.Text("target"); err != nil {
		return f, err
	}
	if f.Before, err = p.Cursor("before"); err != nil {
		return f, err
	}
	f.Limit, err = p.Limit(pageAudit)
	return f, err
}

// readAuditRange adds the parameters that only the API has.
func readAuditRange(p param.Set, f storage.AuditFilter) (storage.AuditFilter, error) {
	var err error
	if f.Since, err = p.Time("from"); err != nil {
		return f, err
	}
	if f.Until, err = p.Time("until"); err != nil {
		return f, err
	}
	order, err := param.OneOf(p, "order", auditOrders())
	if err != nil {
		return f, err
	}
	f.OldestFirst = order == "oldest"
	if f.After, err = p.Cursor("after"); err != nil {
		return f, err
	}
	switch {
	case f.OldestFirst && f.Before != nil:
		return f, param.Errorf("before is given with the order oldest, expected after")
	case !f.OldestFirst && f.After != nil:
		return f, param.Errorf("after is given with the order newest, expected before")
	}
	return f, nil
}

// auditCursor returns the value of the parameter before for an entry.
func auditCursor(line storage.Audited) string { return param.EncodeCursor(line.At, line.ID) }
