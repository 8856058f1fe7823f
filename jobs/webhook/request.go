package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxResponse is how much of a response is read, in bytes. It is not stored, because it may quote
// the request.
const maxResponse = 64 << 10

// Event is the body of a request.
type Event struct {
	ID        uuid.UUID      `json:"id"`        // the same in every try
	Type      string         `json:"type"`      // "run." and the state in which the run ended
	Timestamp time.Time      `json:"timestamp"` // when it ended
	Cluster   uuid.UUID      `json:"cluster"`
	Data      storage.Record `json:"data"` // as in the API, without output, params and attempts
}

// try sends one request. Its error contains no secret. postponed is how long the receiver asks to
// wait.
func (t *hookSender) try(ctx context.Context,
	d storage.Delivery) (postponed time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timeout,
		fmt.Errorf("no response within %s", t.Timeout))
	defer cancel()
	request, err := t.request(ctx, d, time.Now())
	if err != nil {
		return 0, err
	}
	response, err := t.client.Do(request)
	if err != nil {
		return 0, withoutURL(ctx, err)
	}
	defer response.Body.Close()
	// allows the connection to be reused
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxResponse))
	switch code := response.StatusCode; {
	case code >= 300 && code < 400:
		return retryAfter(response, time.Now()), fmt.Errorf("status %d: redirects are not followed",
			code)
	case code < 200 || code >= 300:
		return retryAfter(response, time.Now()), fmt.Errorf("status %d", code)
	case err != nil && ctx.Err() != nil:
		return 0, withoutURL(ctx, err)
	}
	return 0, nil
}

// retryAfter returns the wait of the header Retry-After, in seconds or as a date, or 0.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

func (t *hookSender) request(ctx context.Context, d storage.Delivery,
	now time.Time) (*http.Request, error) {
	run := d.Run
	run.Output, run.Params = "", nil
	body, err := json.Marshal(Event{ID: d.ID, Type: "run." + string(run.State),
		Timestamp: d.CreatedAt, Cluster: t.options.Cluster, Data: run})
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL of the webhook is invalid")
	}
	for name, values := range t.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	request.Header.Set("User-Agent", "holdfast")
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("webhook-id", d.ID.String())
	request.Header.Set("webhook-timestamp", timestamp)
	signatures := make([]string, len(t.Keys))
	for i, key := range t.Keys {
		signatures[i] = Sign(key, d.ID.String(), timestamp, body)
	}
	request.Header.Set("webhook-signature", strings.Join(signatures, " "))
	return request, nil
}

// Sign returns the signature of a request with one key. id and timestamp are the headers webhook-id
// and webhook-timestamp: the time is in seconds since 1970, by the clock of the replica. The header
// webhook-signature has one signature for each key, separated by spaces. A receiver accepts the
// request if one of them is valid. It compares in constant time (hmac.Equal), and refuses
// timestamps that are more than a few minutes off.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// withoutURL returns the error of net/http without the URL, which may contain a secret, and with
// the cause of ctx if it has ended.
func withoutURL(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
