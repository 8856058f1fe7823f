package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// params are the parameters of a request. An empty parameter counts as absent, because a form sends
// all of its fields.
type params struct{ url.Values }

// readParams returns the parameters, or an error if one is not allowed.
func readParams(r *http.Request, allowed ...string) (params, error) {
	if err := onlyParams(r, allowed...); err != nil {
		return params{}, err
	}
	return params{r.URL.Query()}, nil
}

// onlyParams refuses parameters that are not allowed or given twice, because ignoring a misspelt
// filter would give a wrong answer. Only state may be repeated.
func onlyParams(r *http.Request, allowed ...string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &badRequest{"The query can't be read: " + oneLine(err.Error(), 100)}
	}
	for name, values := range query {
		switch {
		case len(allowed) == 0:
			return &badRequest{fmt.Sprintf("parameter %q is unknown: this address takes none",
				cut(name, 100))}
		case !slices.Contains(allowed, name):
			return &badRequest{fmt.Sprintf("parameter %q is unknown, expected some of %s",
				cut(name, 100), strings.Join(allowed, ", "))}
		case len(values) > 1 && name != "state":
			return &badRequest{fmt.Sprintf("%s is given %d times, expected once", name,
				len(values))}
		}
	}
	return nil
}

// maxTextLength is longer than any name.
const maxTextLength = 1000 // bytes

// text returns a parameter that is valid for stores and pages.
func (p params) text(name string) (string, error) {
	text := p.Get(name)
	switch {
	case len(text) > maxTextLength:
		return "", &badRequest{fmt.Sprintf("%s has %d bytes, expected at most %d", name, len(text),
			maxTextLength)}
	case !utf8.ValidString(text):
		return "", &badRequest{name + " is not UTF-8"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", &badRequest{name + " has a control character"}
	}
	return text, nil
}

// oneOf returns a parameter that is one of words, or "" if it is absent.
func oneOf[T ~string](p params, name string, words []T) (T, error) {
	text := p.Get(name)
	if text == "" || slices.Contains(words, T(text)) {
		return T(text), nil
	}
	return "", &badRequest{fmt.Sprintf("%s is %q, expected one of %s", name, cut(text, 100),
		listed(words))}
}

func listed[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}

func (p params) limit(byDefault int) (int, error) {
	if p.Get("limit") == "" {
		return byDefault, nil
	}
	limit, err := strconv.Atoi(p.Get("limit"))
	if err != nil || limit < 1 || limit > storage.MaxBatch {
		return 0, &badRequest{fmt.Sprintf("limit is %q, expected a number from 1 to %d",
			cut(p.Get("limit"), 100), storage.MaxBatch)}
	}
	return limit, nil
}

// timeParam parses a time, in UTC if it has no zone. It returns the zero time if the parameter is
// absent.
func (p params) timeParam(name string) (time.Time, error) {
	text := p.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04",
		time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			const first, last = 1970, 9999 // range of the stores
			if year := at.UTC().Year(); year >= first && year <= last {
				return at.UTC(), nil
			}
		}
	}
	return time.Time{}, &badRequest{fmt.Sprintf("%s is %q, expected a timestamp such as "+
		"2026-01-31T09:00:00Z", name, cut(text, 100))}
}

// timeLayout has the precision of the stores and sorts as text.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// encodeCursor returns a position in a list ordered by time and id. The time is included because no
// query looks up an id alone.
func encodeCursor(at time.Time, id uuid.UUID) string {
	return at.UTC().Format(timeLayout) + "_" + id.String()
}

// cursor parses the result of encodeCursor. It returns nil if the parameter is absent.
func (p params) cursor(name string) (*storage.RunCursor, error) {
	text := p.Get(name)
	if text == "" {
		return nil, nil
	}
	bad := &badRequest{fmt.Sprintf("%s is %q, expected a value from a link to another page", name,
		cut(text, 100))}
	if len(text) != len(timeLayout)+1+36 {
		return nil, bad
	}
	at, errAt := parseInstant(text[:len(timeLayout)])
	id, errID := uuid.Parse(text[len(timeLayout)+1:])
	if errAt != nil || errID != nil {
		return nil, bad
	}
	return &storage.RunCursor{CreatedAt: at, ID: id}, nil
}

func parseInstant(text string) (time.Time, error) { return time.Parse(timeLayout, text) }

// fieldTime formats a time for a form field.
func fieldTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if t.Second() == 0 {
		return t.UTC().Format("2006-01-02T15:04")
	}
	return t.UTC().Format("2006-01-02T15:04:05")
}

// resource parses a resource's display name. It returns nil if the parameter is absent.
func (p params) resource(name string) (*locking.Resource, error) {
	text, err := p.text(name)
	if err != nil || text == "" {
		return nil, err
	}
	resource, err := locking.ParseDisplay(text)
	if err != nil {
		return nil, &badRequest{fmt.Sprintf("%s is %q, expected a table such as public/orders, "+
			"or path:a/b: %s", name, cut(text, 100), oneLine(err.Error(), 200))}
	}
	return &resource, nil
}

// with returns the address of the list with other parameters: pairs of names and values. It leaves
// out empty values.
func (p params) with(path string, pairs ...string) string {
	query := url.Values{}
	for name, values := range p.Values {
		if strings.Join(values, "") != "" && name != "refresh" {
			query[name] = slices.Clone(values)
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		query.Del(pairs[i])
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return address(path, query)
}

// cursors are the names of the parameters of the next and the previous page.
type cursors struct{ next, previous string }

// pager has the addresses of the pages around a page, "" for those that do not exist.
type pager struct{ NextPage, PreviousPage, FirstPage string }

// pager returns the addresses around a page, by its first and last entry.
func (p params) pager(path string, by cursors, first, last string, on, back bool) pager {
	var g pager
	if on {
		g.NextPage = p.with(path, by.previous, "", by.next, last)
	}
	if back {
		g.PreviousPage, g.FirstPage = p.with(path, by.next, "", by.previous, first),
			p.with(path, by.next, "", by.previous, "")
	}
	return g
}

// setLinks sets the Link header of RFC 8288.
func setLinks(w http.ResponseWriter, g pager) {
	var links []string
	if g.NextPage != "" {
		links = append(links, "<"+g.NextPage+`>; rel="next"`)
	}
	if g.PreviousPage != "" {
		links = append(links, "<"+g.PreviousPage+`>; rel="prev"`)
	}
	if len(links) > 0 {
		w.Header().Set("Link", strings.Join(links, ", "))
	}
}

// trim removes the entry beyond the limit that shows whether there is another page, and reports
// whether there are a next and a previous page. On a page that was read backwards, that entry is
// the first. givenNext and givenPrevious report which cursors the request had.
func trim[T any](list []T, limit int, givenNext,
	givenPrevious bool) (page []T, next, previous bool) {
	more := len(list) > limit
	backwards := givenPrevious && !givenNext
	switch {
	case more && backwards:
		list = list[len(list)-limit:]
	case more:
		list = list[:limit]
	}
	return list, backwards || more, givenNext || backwards && more
}
