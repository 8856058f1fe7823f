package remote

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// cursor is the place in a list of pages. Each page links to the next.
type cursor struct {
	client *Client
	path   []string
	query  url.Values // of the next page; nil: there is none
	asked  map[string]bool
}

func newCursor(c *Client, path []string, query url.Values) *cursor {
	return &cursor{c, path, query, map[string]bool{}}
}

// nextOf returns the next page. A link that would lead on for ever is an error: one to a query that
// was asked already, or one on a page without entries.
func nextOf[T any](ctx context.Context, at *cursor) (page []T, err error) {
	query := at.query.Encode()
	if at.asked[query] {
		return nil, at.endless("a page links to an earlier one")
	}
	at.asked[query] = true
	next, err := at.client.ask(ctx, request{path: at.path, query: at.query}, &page)
	if err != nil {
		return nil, err
	}
	if next != nil && len(page) == 0 {
		return nil, at.endless("an empty page links to another one")
	}
	at.query = next
	return page, nil
}

func (at *cursor) endless(why string) error {
	return fmt.Errorf("ask %s: the list %s has no end: %s", at.client.options.Server,
		strings.Join(at.path, "/"), why)
}
