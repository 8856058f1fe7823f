package param

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Set are the parameters of a request. An empty parameter counts as absent, because a form sends
// all of its fields.
type Set struct{ url.Values }

// Read returns the parameters, or an error if one is not allowed.
func Read(r *http.Request, allowed ...string) (Set, error) {
	if err := Only(r, allowed...); err != nil {
		return Set{}, err
	}
	return Set{r.URL.Query()}, nil
}

// Only refuses parameters that are not allowed or given twice, because ignoring a misspelt
// filter would give a wrong answer. Only state may be repeated.
func Only(r *http.Request, allowed ...string) error {
	return OnlyWith(r, []string{"state"}, allowed...)
}

// OnlyWith is Only with other parameters that may be repeated.
func OnlyWith(r *http.Request, repeated []string, allowed ...string) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Errorf("The query can't be read: %s", words.OneLine(err.Error(), 100))
	}
	for name, values := range query {
		switch {
		case len(allowed) == 0:
			return Errorf("parameter %q is unknown: this address takes none",
				words.Cut(name, 100))
		case !slices.Contains(allowed, name):
			return Errorf("parameter %q is unknown, expected some of %s",
				words.Cut(name, 100), strings.Join(allowed, ", "))
		case len(values) > 1 && !slices.Contains(repeated, name):
			return Errorf("%s is given %d times, expected once", name,
				len(values))
		}
	}
	return nil
}

// MaxTextLength is longer than any name.
const MaxTextLength = 1000 // bytes

// Text returns a parameter that is valid for stores and pages.
func (p Set) Text(name string) (string, error) {
	text := p.Get(name)
	switch {
	case len(text) > MaxTextLength:
		return "", Errorf("%s has %d bytes, expected at most %d", name, len(text),
			MaxTextLength)
	case !utf8.ValidString(text):
		return "", Errorf("%s is not UTF-8", name)
	case strings.ContainsFunc(text, runes.IsControl):
		return "", Errorf("%s has a control character", name)
	}
	return text, nil
}

// OneOf returns a parameter that is one of allowed, or "" if it is absent.
func OneOf[T ~string](p Set, name string, allowed []T) (T, error) {
	text := p.Get(name)
	if text == "" || slices.Contains(allowed, T(text)) {
		return T(text), nil
	}
	return "", Errorf("%s is %q, expected one of %s", name, words.Cut(text, 100),
		words.List(allowed))
}

// Limit returns the largest number of entries, or byDefault if the parameter is absent.
func (p Set) Limit(byDefault int) (int, error) {
	if p.Get("limit") == "" {
		return byDefault, nil
	}
	limit, err := strconv.Atoi(p.Get("limit"))
	if err != nil || limit < 1 || limit > storage.MaxBatch {
		return 0, Errorf("limit is %q, expected a number from 1 to %d",
			words.Cut(p.Get("limit"), 100), storage.MaxBatch)
	}
	return limit, nil
}

// Time parses a time, in UTC if it has no zone. It returns the zero time if the parameter is
// absent. It refuses the year 9999, because a range that begins then may end after the last year
// that JSON can have.
func (p Set) Time(name string) (time.Time, error) {
	text := p.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04",
		time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			const first, last = 1970, 9998
			if year := at.UTC().Year(); year >= first && year <= last {
				return at.UTC(), nil
			}
		}
	}
	return time.Time{}, Errorf("%s is %q, expected a timestamp such as "+
		"2026-01-31T09:00:00Z", name, words.Cut(text, 100))
}

// Newest is the parameter with which the script of a list asks for an update: the time of the
// newest entry that the page shows. Newer entries are only counted.
const Newest = "newest"

// Lanes is the parameter with which the script of the timeline asks for an update: the lanes that
// the page shows. They keep their places and heights.
const Lanes = "lanes"

// timeLayout has the precision of the stores and sorts as text.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// EncodeCursor returns a position in a list ordered by time and id. The time is included because no
// query looks up an id alone.
func EncodeCursor(at time.Time, id uuid.UUID) string {
	return at.UTC().Format(timeLayout) + "_" + id.String()
}

// Cursor parses the result of EncodeCursor. It returns nil if the parameter is absent.
func (p Set) Cursor(name string) (*storage.RunCursor, error) {
	text := p.Get(name)
	if text == "" {
		return nil, nil
	}
	bad := Errorf("%s is %q, expected a value from a link to another page", name,
		words.Cut(text, 100))
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

// FieldTime formats a time for a form field, without its fraction of a second.
func FieldTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if t.Second() == 0 {
		return t.UTC().Format("2006-01-02T15:04")
	}
	return t.UTC().Format("2006-01-02T15:04:05")
}

// Resource parses a resource's display name. It returns nil if the parameter is absent.
func (p Set) Resource(name string) (*locking.Resource, error) {
	text, err := p.Text(name)
	if err != nil || text == "" {
		return nil, err
	}
	resource, err := locking.ParseDisplay(text)
	if err != nil {
		return nil, Errorf("%s is %q, expected a table such as public/orders, "+
			"or path:a/b: %s", name, words.Cut(text, 100), words.OneLine(err.Error(), 200))
	}
	return &resource, nil
}

// With returns the address of the list with other parameters: pairs of names and values. It leaves
// out empty values.
func (p Set) With(path string, pairs ...string) string {
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
	return Address(path, query)
}

// Address joins a path and a query.
func Address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
