package admin

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxNews is the largest number of new runs or entries that a page counts.
const maxNews = 99

// keepTo narrows the filter of a page to the runs up to the newest one that the page showed before,
// and returns the number of newer runs, or "" if there are none. A zero time changes nothing.
func (r *reader) keepTo(ctx context.Context, f *storage.RunFilter,
	newest time.Time) (string, error) {
	if newest.IsZero() {
		return "", nil
	}
	after := newest.Add(time.Microsecond) // the precision of the stores
	news := *f
	news.From, news.Before, news.After, news.Limit = after, nil, nil, maxNews+1
	if f.Until.IsZero() || f.Until.After(after) {
		f.Until = after
	}
	runs, err := r.Runs(ctx, news)
	return newsOf(len(runs)), err
}

// newsOf returns the number of new entries of a page, or "" if there are none.
func newsOf(n int) string {
	switch {
	case n == 0:
		return ""
	case n > maxNews:
		return "More than " + strconv.Itoa(maxNews)
	default:
		return strconv.Itoa(n)
	}
}

// holdBack removes the runs from a page that are newer than the newest one that it showed before,
// and returns their number, or "" if there are none. A zero time removes nothing. It is for pages
// with the runs after a given run: only while such a page is not full, new runs belong to it.
func holdBack(runs []storage.Record, newest time.Time) (kept []storage.Record, news string) {
	if newest.IsZero() {
		return runs, ""
	}
	n := slices.IndexFunc(runs, func(r storage.Record) bool { return !r.CreatedAt.After(newest) })
	if n < 0 {
		n = len(runs)
	}
	if n == 0 {
		return runs, ""
	}
	return runs[n:], strconv.Itoa(n)
}

// newestOf returns the time to which the updates of a page of runs keep: that of the request, or
// that of the newest listed run. Without runs it is "", so that the first runs appear.
func newestOf(requested time.Time, listed []storage.Record) string {
	if len(listed) == 0 {
		return ""
	}
	return newestText(requested, listed[0].CreatedAt)
}

// newestText returns the time that the updates of a page keep to, as the parameter: that of the
// request, or that of the newest listed entry.
func newestText(requested, listed time.Time) string {
	if requested.IsZero() {
		requested = listed
	}
	return requested.UTC().Format(time.RFC3339Nano)
}
