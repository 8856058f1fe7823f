package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The limits of a request.
const (
	connectTimeout = 10 * time.Second
	requestTimeout = 30 * time.Second // with the answer
	maxAnswer      = 64 << 20         // bytes
	maxRefusal     = 1 << 20
)

// Options are the options of a Client. Server is required.
type Options struct {
	Server  *url.URL // of ParseServer
	Token   string   // "": requests have no token
	Version string   // of the program, for the header User-Agent
	// PlainHTTP allows a token over plain HTTP to another machine, where others may read it.
	PlainHTTP bool
	Transport http.RoundTripper // nil: with the system's certificates and proxy
}

// Client asks one server. Methods may be called concurrently.
type Client struct {
	options Options
	http    *http.Client
}

// New returns a client.
func New(o Options) (*Client, error) {
	if o.Server.Scheme == "http" && o.Token != "" && !o.PlainHTTP &&
		!isThisMachine(o.Server.Hostname()) {
		return nil, fmt.Errorf("server %s: others could read the token without TLS, expected "+
			"https", o.Server.Redacted())
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext,
			// HTTP/2 needs it beside an own DialContext
			ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &Client{options: o, http: &http.Client{
		Transport: o.Transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is a request to the API.
type request struct {
	path  []string // segments after /api/v1/
	query url.Values
	// body is sent as JSON with POST; nil: GET
	body any
	key  string // the header Idempotency-Key; "": none
	// accepts lists further statuses whose body is the answer
	accepts []int
}

// address returns the URL of a request.
func (c *Client) address(r request) string {
	segments := make([]string, len(r.path))
	for i, s := range r.path {
		segments[i] = url.PathEscape(s)
	}
	address := strings.TrimRight(c.options.Server.String(), "/") + "/api/v1/" +
		strings.Join(segments, "/")
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	return address
}

// ask sends a request and decodes the answer into value. It returns the query of the next page, nil
// if there is none.
func (c *Client) ask(ctx context.Context, r request, value any) (url.Values, error) {
	address := c.address(r)
	method, body := http.MethodGet, io.Reader(nil)
	if r.body != nil {
		sent, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		method, body = http.MethodPost, bytes.NewReader(sent)
	}
	sent, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.options.Server, err)
	}
	sent.Header.Set("Accept", "application/json")
	sent.Header.Set("User-Agent", "holdfast/"+c.options.Version)
	if r.body != nil {
		sent.Header.Set("Content-Type", "application/json")
		sent.Header.Set("X-Holdfast-Action", "1") // for servers without users
	}
	if r.key != "" {
		sent.Header.Set("Idempotency-Key", r.key)
	}
	if c.options.Token != "" {
		sent.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	reply, err := c.http.Do(sent)
	if err != nil {
		return nil, c.unanswered(ctx, r, err)
	}
	defer reply.Body.Close() //nolint:errcheck // the answer was read, or is an error anyway
	answers := reply.StatusCode == http.StatusOK
	for _, status := range r.accepts {
		answers = answers || reply.StatusCode == status && isJSON(reply)
	}
	if !answers {
		return nil, c.refusal(r, reply)
	}
	if err := c.decode(reply, value); err != nil {
		if ctx.Err() != nil || errors.Is(err, errCut) {
			err = c.unanswered(ctx, r, err)
		}
		return nil, err
	}
	return nextPage(reply.Header.Values("Link")), nil
}

// unanswered returns the error for a request without a complete answer.
func (c *Client) unanswered(ctx context.Context, r request, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // it names the address, which has names that nobody asked for
	}
	result := ""
	if r.body != nil {
		result = "; the result is unknown: look at \"scheduler audit\" before you repeat it"
	}
	return fmt.Errorf("ask %s: %w%s", c.options.Server, &unavailableError{err}, result)
}

// unavailableError is a server that did not answer.
type unavailableError struct{ cause error }

func (e *unavailableError) Error() string   { return e.cause.Error() }
func (e *unavailableError) Unwrap() []error { return []error{storage.ErrUnavailable, e.cause} }

// errCut says that the connection ended within the answer.
var errCut = errors.New("the answer is not complete")

// decode reads the JSON of an answer.
func (c *Client) decode(reply *http.Response, value any) error {
	if !isJSON(reply) {
		return c.noAPI(reply)
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("ask %s: the answer has more than %d MiB", c.options.Server,
			maxAnswer>>20)
	}
	if err := json.Unmarshal(plain(body), value); err != nil {
		return fmt.Errorf("ask %s: the answer is not as this version expects it: %w",
			c.options.Server, err)
	}
	return nil
}

// plain removes white space from JSON and writes <, > and & without escapes. Raw values are then as
// the store has them.
func plain(body []byte) []byte {
	var compact bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return body // Unmarshal reports the mistake
	}
	in, out := compact.Bytes(), make([]byte, 0, compact.Len())
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' || i+1 == len(in) {
			out = append(out, in[i])
			continue
		}
		if i+6 <= len(in) {
			switch strings.ToLower(string(in[i : i+6])) {
			case `\u003c`:
				out, i = append(out, '<'), i+5
				continue
			case `\u003e`:
				out, i = append(out, '>'), i+5
				continue
			case `\u0026`:
				out, i = append(out, '&'), i+5
				continue
			}
		}
		out, i = append(out, in[i], in[i+1]), i+1
	}
	return out
}

func isJSON(reply *http.Response) bool {
	kind, _, _ := strings.Cut(reply.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(kind) == "application/json"
}

// nextPage returns the query of the next page of a list. Its path is not used: a proxy may serve
// the replica under another one.
func nextPage(links []string) url.Values {
	for _, line := range links {
		for link := range strings.SplitSeq(line, ",") {
			target, rel, found := strings.Cut(link, ";")
			if !found || strings.TrimSpace(rel) != `rel="next"` {
				continue
			}
			parsed, err := url.Parse(strings.Trim(strings.TrimSpace(target), "<>"))
			if err != nil {
				return nil
			}
			return parsed.Query()
		}
	}
	return nil
}
