package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// bulkResult is what became of one item of a bulk action.
type bulkResult struct {
	bulkItem
	Err     error // why it was not done, or why that is unknown
	Untried bool  // the action stopped at an earlier item
}

// Done reports whether the action was done.
func (r bulkResult) Done() bool { return r.Err == nil && !r.Untried }

// Unknown reports whether the store did not say if the action was done.
func (r bulkResult) Unknown() bool {
	return r.Err != nil && r.status() == 0 && !errors.Is(r.Err, pages.ErrBusy)
}

// Words says what became of the item.
func (r bulkResult) Words() string {
	switch {
	case r.Done():
		return "Done"
	case r.Unknown():
		return "Unknown"
	}
	return "Not done"
}

// status is that of the refusal, or 0 if the store did not answer or was not queried.
func (r bulkResult) status() int {
	status, _ := refusedActionOf(r.Err)
	return status
}

// Because says why the action was not done, in a sentence.
func (r bulkResult) Because() string {
	switch {
	case r.Untried:
		return "Not tried, because the action stopped at an earlier item."
	case r.status() == 0:
		return words.Sentence(words.Title(pages.StoreError(r.Err)))
	}
	_, refused := refusedActionOf(r.Err)
	return words.Sentence(words.Title(words.Cut(withoutConflict(refused.Error), 500)))
}

// bulkError has the results of a bulk action that was not done on all items.
type bulkError struct {
	action  bulkAction
	results []bulkResult
	stopped error // of the store that did not answer, or pages.ErrBusy; nil: all were tried
}

// Error says how many items the action was done on.
func (e *bulkError) Error() string {
	number := "none"
	if n := e.done(); n > 0 {
		number = words.Count(n)
	}
	return fmt.Sprintf("%s %s of %s", e.action.past, number, e.action.count(len(e.results)))
}

func (e *bulkError) done() (n int) {
	for _, r := range e.results {
		if r.Done() {
			n++
		}
	}
	return n
}

// status is the status of the refusals if nothing was done and they have the same, or else 409.
func (e *bulkError) status() int {
	if e.stopped != nil {
		return http.StatusServiceUnavailable
	}
	for _, r := range e.results {
		if r.Done() || r.status() != e.results[0].status() {
			return http.StatusConflict
		}
	}
	return e.results[0].status()
}

// refusedBulk returns the form again, with the results. It is sent again only if the action stopped
// at an item: the keys of the items that were done return their results.
func (s base) refusedBulk(r *http.Request, sent url.Values, e *bulkError) (form, int) {
	for _, result := range e.results {
		s.Guard.Denied(r, result.Err)
	}
	f := form{Key: sent.Get("key"), Result: "Done in part", ErrorText: e.Error(), sent: sent,
		err: e, Idle: e.stopped == nil, Advice: "The list below has the reasons."}
	if e.done() == 0 {
		f.Result = "Not done"
	}
	if e.stopped != nil {
		s.StoreFailed(r.Context(), e.stopped)
		f.Advice = "Submit again: the action runs at most once for each item."
		if !errors.Is(e.stopped, pages.ErrBusy) {
			f.Result, f.Advice = "Result unknown", "The database did not answer. "+f.Advice
		}
	}
	return f, e.status()
}

// items returns the items of the results, or if there are more than most, the first of those that
// were not done.
func (e *bulkError) items(most int) (items []bulkItem) {
	for _, r := range e.results {
		if len(e.results) <= most || !r.Done() && len(items) < most {
			items = append(items, r.bulkItem)
		}
	}
	return items
}

// completeResult completes the form with the results of an action. It is sent again with the same
// items.
func (c *bulkSelection) completeResult(f *form, b bulkAction) {
	if c.filter == nil {
		return
	}
	f.Title = fmt.Sprintf(b.title, b.count(len(f.Results)))
	f.Button = f.Title
	f.hidden("items", f.sent.Get("items"))
}

// resultsOf returns the results that an error has, or nil. The view knows the jobs of runs.
func resultsOf(err error, v *bulkView) []bulkResult {
	var e *bulkError
	if !errors.As(err, &e) {
		return nil
	}
	if v == nil {
		return e.results
	}
	known := make(map[string]bulkItem, len(v.Items))
	for _, item := range v.Items {
		known[item.name()] = item
	}
	for n := range e.results {
		if item, ok := known[e.results[n].name()]; ok {
			e.results[n].bulkItem = item
		}
	}
	return e.results
}
