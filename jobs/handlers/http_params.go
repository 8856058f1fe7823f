package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// HTTPParams are the params of an http job. URL, Headers and Body may have templates such as
// {{scheduled_at}} or {{scheduled_at:%Y-%m-%d}}, with the names of [Values]. Values are escaped for
// their place: in the path and the query of the URL, in headers, and in a body of JSON, XML or a
// form.
type HTTPParams struct {
	URL          string            `json:"url"`    // http or https, absolute
	Method       string            `json:"method"` // default GET, or POST if there is a body
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body"`
	ExpectStatus Statuses          `json:"expect_status"` // default any from 200 to 299
	// Timeout limits the time until the response is read. It is more than 0; nil: 30s.
	Timeout *jobs.Duration `json:"timeout"`
	// FollowRedirects is "same_host" (the default), "none" or "any". With "any" the handler also
	// follows redirects to other hosts. From the first such redirect on, requests do not have the
	// headers of the job. A redirect that would send the body to another host is an error.
	FollowRedirects string `json:"follow_redirects"`
	// Values are for the templates.
	Values Values `json:"values"`
}

// Validate returns the mistakes, at most 20 of them.
func (p HTTPParams) Validate() error {
	var problems problemList
	p.Values.check(&problems)
	sample := sampleExpander(p.Values)
	if expanded, err := sample.expandURL(p.URL); err != nil {
		problems.add("url", "%s", err)
	} else if message := urlProblem(expanded); message != "" {
		problems.add("url", "%s", message)
	}
	if _, err := sample.expand(p.Body, asItIs); err != nil {
		problems.add("body", "%s", err)
	}
	if p.Method != "" && !isToken(p.Method) {
		problems.add("method", "found %q, expected a method such as GET or POST", p.Method)
	}
	headers := map[string]string{} // names by their canonical form
	for _, name := range sortedNames(p.Headers) {
		canonical := http.CanonicalHeaderKey(name)
		if first, twice := headers[canonical]; twice {
			problems.add("headers", "found the header %s a second time as %s, expected it once",
				first, name)
		} else {
			headers[canonical] = name
		}
		if value, err := sample.expand(p.Headers[name], printable); err != nil {
			problems.add("headers", "%s: %s", name, err)
		} else if message := headerProblem(name, value); message != "" {
			problems.add("headers", "%s", message)
		}
	}
	for _, status := range p.ExpectStatus {
		if status < 200 || status > 599 {
			problems.add("expect_status", "found %d, expected 200 to 599", status)
		}
	}
	if !slices.Contains([]string{"", redirectsSameHost, redirectsAny, redirectsNone},
		p.FollowRedirects) {
		problems.add("follow_redirects", "found %q, expected %q, %q or %q", p.FollowRedirects,
			redirectsSameHost, redirectsNone, redirectsAny)
	}
	if timeout := p.timeout(); timeout <= 0 {
		problems.add("timeout", "found %s, expected more than 0s", timeout)
	}
	return problems.err()
}

// texts returns the texts that may have templates.
func (p HTTPParams) texts() []string {
	texts := []string{p.URL, p.Body}
	for _, value := range p.Headers {
		texts = append(texts, value)
	}
	return texts
}

// expanded returns the params with the facts of a run in place of templates.
func (p HTTPParams) expanded(ctx context.Context, run *jobs.Run) (HTTPParams, error) {
	e, err := newExpander(ctx, run, p.Values, p.texts())
	if err != nil {
		return p, err
	}
	contentType := ""
	headers := make(map[string]string, len(p.Headers))
	for name, value := range p.Headers {
		if http.CanonicalHeaderKey(name) == "Content-Type" {
			contentType = value
		}
		if headers[name], err = e.expand(value, printable); err != nil {
			return p, fmt.Errorf("header %s: %w", name, err)
		}
	}
	p.Headers = headers
	if p.URL, err = e.expandURL(p.URL); err != nil {
		return p, fmt.Errorf("url: %w", err)
	}
	if p.Body, err = e.expand(p.Body, bodyEscape(contentType, p.Body)); err != nil {
		return p, fmt.Errorf("body: %w", err)
	}
	return p, nil
}

func (p HTTPParams) method() string {
	switch {
	case p.Method != "":
		return strings.ToUpper(p.Method)
	case p.Body != "":
		return http.MethodPost
	}
	return http.MethodGet
}

func (p HTTPParams) timeout() time.Duration {
	if p.Timeout == nil {
		return defaultHTTPTimeout
	}
	return time.Duration(*p.Timeout)
}

// urlProblem returns the mistake in a URL, or "". It does not quote the URL, which may be secret.
func urlProblem(text string) string {
	if text == "" {
		return "is missing"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("found the scheme %q, expected an absolute URL with http or https",
			u.Scheme)
	case u.Hostname() == "":
		return "names no host"
	}
	return ""
}

// headerProblem returns the mistake in a header, or "". It does not quote the value, which may be
// secret.
func headerProblem(name, value string) string {
	switch {
	case !isToken(name):
		return fmt.Sprintf("%q is no header's name", name)
	case strings.HasPrefix(http.CanonicalHeaderKey(name), "X-Holdfast-"):
		return fmt.Sprintf("%s is set by the scheduler", name)
	case strings.ContainsFunc(value,
		func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Sprintf("the value of %s holds a control character", name)
	}
	return ""
}

// isToken reports whether s is a token of RFC 9110, as methods and the names
// of headers are.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Statuses are the response statuses that count as success; none stands for 200 to 299. In params
// they are a number or a list.
type Statuses []int

// UnmarshalJSON parses a number or a list of numbers. It ignores null.
func (s *Statuses) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var one int
	if json.Unmarshal(data, &one) == nil {
		*s = Statuses{one}
		return nil
	}
	var list []int
	if json.Unmarshal(data, &list) != nil || len(list) == 0 {
		return errors.New("expected a status such as 200, or a list of them")
	}
	*s = list
	return nil
}

// String returns "status 200 or 204", or "a status from 200 to 299".
func (s Statuses) String() string {
	if len(s) == 0 {
		return "a status from 200 to 299"
	}
	texts := make([]string, len(s))
	for i, status := range s {
		texts[i] = strconv.Itoa(status)
	}
	return "status " + strings.Join(texts, " or ")
}

func (s Statuses) match(status int) bool {
	if len(s) == 0 {
		return status >= 200 && status <= 299
	}
	return slices.Contains(s, status)
}
