package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Refusal is an answer of the API that is no result.
type Refusal struct {
	Status int    // of HTTP
	Text   string // for people, one line
	cause  error  // what the same request returns in this process; nil if there is no such error
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Unwrap returns the error that the same request returns in this process, or nil.
func (r *Refusal) Unwrap() error { return r.cause }

// refused is the JSON of a refusal.
type refused struct {
	Error    string                   `json:"error"`
	Code     admin.Refusal            `json:"code"`
	Problems []operations.SpecProblem `json:"problems"`
	Paused   *storage.Pause           `json:"paused"`
	WaitsFor *storage.RunBlocker      `json:"waits_for"`
}

// refusal returns the error for an answer that is no result.
func (c *Client) refusal(r request, reply *http.Response) error {
	status := reply.StatusCode
	switch {
	case status >= 300 && status < 400:
		return c.redirected(reply)
	case !isJSON(reply) && status != http.StatusTooManyRequests &&
		status < http.StatusInternalServerError:
		return c.noAPI(reply)
	}
	var said refused
	if isJSON(reply) {
		body, err := io.ReadAll(io.LimitReader(reply.Body, maxRefusal))
		if err == nil {
			err = json.Unmarshal(body, &said)
		}
		if err != nil {
			return fmt.Errorf("ask %s: %s, and the reason cannot be read: %w", c.options.Server,
				oneLine(reply.Status), err)
		}
	}
	text := oneLine(cmp.Or(said.Error, strings.ToLower(http.StatusText(status)), reply.Status))
	after := retryAfter(reply)
	switch {
	case status == http.StatusUnauthorized:
		return &Refusal{status, c.unauthorized(text), nil}
	case status == http.StatusTooManyRequests:
		return &Refusal{status, fmt.Sprintf("ask %s: %s%s", c.options.Server, text, after),
			storage.ErrUnavailable}
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		if r.body != nil && (status != http.StatusServiceUnavailable || after == "") {
			after += "; the result is unknown: look at \"scheduler audit\" before you repeat it"
		}
		return &Refusal{status, fmt.Sprintf("ask %s: %s%s", c.options.Server, text, after),
			storage.ErrUnavailable}
	}
	return &Refusal{status, text, causeOf(status, said)}
}

// causeOf returns the error that the request would have had in this process.
func causeOf(status int, said refused) error {
	switch said.Code {
	case admin.RefusedPaused:
		if said.Paused != nil {
			return &storage.PausedError{Pause: *said.Paused}
		}
		return storage.ErrPaused
	case admin.RefusedBusy:
		return storage.ErrBusy
	case admin.RefusedInTransaction:
		return storage.ErrInTransaction
	case admin.RefusedKeyUsed:
		return storage.ErrKeyUsed
	case admin.RefusedDependents:
		return storage.ErrHasDependents
	case admin.RefusedFromConfig:
		return storage.ErrFromConfig
	case admin.RefusedConflict:
		return storage.ErrConflict
	case admin.RefusedJob:
		return &operations.SpecError{Problems: said.Problems}
	case admin.RefusedInput:
		return storage.ErrBadInput
	case admin.RefusedUnsupported:
		return errors.ErrUnsupported
	}
	if status == http.StatusNotFound {
		return storage.ErrNotFound
	}
	return nil
}

// unauthorized returns the text for a missing or wrong token.
func (c *Client) unauthorized(text string) string {
	if c.options.Token == "" {
		return fmt.Sprintf("%s needs a token: use --token-file or HOLDFAST_TOKEN", c.options.Server)
	}
	return fmt.Sprintf("%s refused the token: %s", c.options.Server, text)
}

// redirected returns the error for a redirect. The client does not follow it, because the token is
// for one server.
func (c *Client) redirected(reply *http.Response) error {
	to := "elsewhere"
	if target, err := reply.Location(); err == nil {
		to = (&url.URL{Scheme: target.Scheme, Host: target.Host}).String()
	}
	return &Refusal{Status: reply.StatusCode, Text: fmt.Sprintf("%s redirects to %s, which gets "+
		"no token: use the address of the server itself", c.options.Server, oneLine(to))}
}

// noAPI returns the error for an answer that no replica gives.
func (c *Client) noAPI(reply *http.Response) error {
	return &Refusal{Status: reply.StatusCode, Text: fmt.Sprintf("%s answers %s, but not as a "+
		"replica of Holdfast: check the address and its path", c.options.Server,
		oneLine(reply.Status))}
}

// retryAfter returns when to try again, as the end of a text; "" if the server does not say.
func retryAfter(reply *http.Response) string {
	seconds, err := strconv.Atoi(reply.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return ""
	}
	return fmt.Sprintf("; try again in %d s", seconds)
}

// oneLine returns a text of a server without control characters, and not too long for an error.
func oneLine(text string) string {
	const most = 2000
	text = strings.Map(func(r rune) rune {
		if runes.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
