package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/egress"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	defaultHTTPTimeout = 30 * time.Second
	maxRedirects       = 5
	maxResponse        = 8 << 20 // bytes that are read
)

// The headers that identify the run.
const (
	headerRun         = "X-Holdfast-Run"          // the run's id
	headerJob         = "X-Holdfast-Job"          // percent-encoded if it is not printable ASCII
	headerScheduledAt = "X-Holdfast-Scheduled-At" // RFC 3339, UTC
	// servers should refuse tokens below the largest one seen
	headerToken = "X-Holdfast-Token"
)

// HTTP returns the handler "http", which sends a request and expects a status. client may be nil;
// its CheckRedirect is replaced. Without a client, link-local addresses and the metadata services
// of clouds are refused, because a job's URL must not read the credentials of its machine.
//
// The handler follows at most 5 redirects, and none to another host unless the params say so. A
// redirect with 301 or 302 that would change the method, such as POST to GET, is an error. If the
// status of a redirect is in ExpectStatus, the handler does not follow that redirect. It reads at
// most the first 8 MiB of a response. The end of this part is stored with the run, whose result is
// {"status": …}.
func HTTP(client *http.Client) jobs.Registration {
	if client == nil {
		var defaults *egress.Rules
		client = &http.Client{Transport: defaults.NewTransport()}
	}
	h := httpHandler{client: client}
	return jobs.Handle("http", h.run)
}

// httpResult is the result of a run that got a response.
type httpResult struct {
	Status int `json:"status"`
}

type httpHandler struct{ client *http.Client }

func (h httpHandler) run(ctx context.Context, run *jobs.Run, p HTTPParams) error {
	timeout := p.timeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("no complete response within %s", timeout))
	defer cancel()
	p, err := p.expanded(ctx, run)
	if err != nil {
		return fmt.Errorf("http request: %w", withCause(ctx, err))
	}
	request, err := p.request(ctx, run)
	if err != nil {
		return fmt.Errorf("http request: %w", err)
	}
	what := request.Method + " " + shownURL(request.URL)
	response, err := h.withRedirects(p).Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", what, withCause(ctx, withoutURL(err)))
	}
	defer response.Body.Close()
	if err := run.SetResult(httpResult{Status: response.StatusCode}); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	tail, err := keepResponse(run, response)
	if !p.ExpectStatus.match(response.StatusCode) {
		return fmt.Errorf("%s: expected %s, found %d%s", what, p.ExpectStatus, response.StatusCode,
			quote(tail))
	}
	if err != nil {
		return fmt.Errorf("%s: response: %w", what, withCause(ctx, err))
	}
	return nil
}

// keepResponse copies the response into the run's output, and returns its end.
func keepResponse(run *jobs.Run, response *http.Response) (*output.Tail, error) {
	out, tail := run.Output(), newTail(run)
	fmt.Fprintf(out, "%s %s\n", response.Proto, response.Status)
	n, err := io.Copy(io.MultiWriter(out, tail), io.LimitReader(response.Body, maxResponse))
	if n == maxResponse {
		fmt.Fprintf(out, "\n[no more than %d bytes of the response were read]", maxResponse)
	}
	return tail, err
}

func (p HTTPParams) request(ctx context.Context, run *jobs.Run) (*http.Request, error) {
	var body io.Reader
	if p.Body != "" {
		body = strings.NewReader(p.Body)
	}
	request, err := http.NewRequestWithContext(ctx, p.method(), p.URL, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "holdfast")
	for name, value := range p.Headers {
		if strings.EqualFold(name, "Host") {
			request.Host = value
			continue
		}
		request.Header.Set(name, value)
	}
	request.Header.Set(headerRun, run.ID.String())
	request.Header.Set(headerJob, printable(run.Job))
	request.Header.Set(headerScheduledAt, run.ScheduledAt.UTC().Format(time.RFC3339Nano))
	request.Header.Set(headerToken, strconv.FormatInt(int64(run.Token), 10))
	return request, nil
}

func printable(name string) string {
	for _, b := range []byte(name) {
		if b < ' ' || b > '~' {
			return url.PathEscape(name)
		}
	}
	return name
}

// shownURL returns the URL without the user and the query, which may be secret.
func shownURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// withoutURL returns the error of net/http without the URL.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
