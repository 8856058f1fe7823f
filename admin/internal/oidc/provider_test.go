package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const testIssuer = "https://login.example.com"

// roundTrip answers requests to the provider.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newTestProvider returns a provider without a network.
func newTestProvider(answer roundTrip) *Provider {
	p := New(Settings{Issuer: testIssuer})
	p.client.Transport = answer
	return p
}

func answerOf(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}}}
}

// documentOf returns the document of the provider with some other endpoints.
func documentOf(changes map[string]string) string {
	document := map[string]string{"issuer": testIssuer,
		"authorization_endpoint": testIssuer + "/auth", "token_endpoint": testIssuer + "/token",
		"jwks_uri": testIssuer + "/keys"}
	maps.Copy(document, changes)
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func isUnavailable(err error) bool { return errors.As(err, new(*UnavailableError)) }

// TestDiscoveryIsRepeated checks a provider that replies only to the second request for its
// document.
func TestDiscoveryIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = time.Second
		var requests atomic.Int32
		p := newTestProvider(func(*http.Request) (*http.Response, error) {
			if requests.Add(1) == 1 {
				time.Sleep(slow)
				return answerOf(http.StatusBadGateway, "not yet"), nil
			}
			return answerOf(http.StatusOK, documentOf(nil)), nil
		})
		defer p.Close()
		for range 10 {
			if _, err := p.SignInURL(t.Context(), SignIn{}); !isUnavailable(err) {
				t.Errorf("error is %v", err)
			}
		}
		time.Sleep(discoveryInterval - 1) // counted from the end of the slow attempt
		if err := p.Ready(); !isUnavailable(err) || requests.Load() != 1 {
			t.Errorf("%d requests within %s, want 1: %v", requests.Load(),
				discoveryInterval, err)
		}
		time.Sleep(time.Nanosecond)
		for range 10 {
			if _, err := p.SignInURL(t.Context(), SignIn{}); err != nil {
				t.Error(err)
			}
		}
		if err := p.Ready(); err != nil || requests.Load() != 2 {
			t.Errorf("%d requests, want 2: %v", requests.Load(), err)
		}
	})
}

// TestProviderThatNeverAnswers checks that Ready does not wait, and that other calls wait until
// their context ends.
func TestProviderThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		p := newTestProvider(func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		start := time.Now()
		if err := p.Ready(); err != nil || time.Since(start) != 0 {
			t.Errorf("at first: %v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.SignInURL(ctx, SignIn{}); !isUnavailable(err) ||
			time.Since(start) != time.Second {
			t.Errorf("a request of 1 s: %v after %s", err, time.Since(start))
		}
		if _, err := p.SignInURL(t.Context(), SignIn{}); !isUnavailable(err) ||
			time.Since(start) != requestTimeout {
			t.Errorf("a patient request: %v after %s", err, time.Since(start))
		}
		time.Sleep(discoveryInterval)
		start = time.Now()
		if err := p.Ready(); !isUnavailable(err) || time.Since(start) != 0 {
			t.Errorf("the last known state: %v after %s", err, time.Since(start))
		}
		synctest.Wait()
		p.Close()
		if time.Since(start) != 0 || requests.Load() != 2 {
			t.Errorf("the end took %s with %d requests", time.Since(start), requests.Load())
		}
		time.Sleep(discoveryInterval)
		if _, err := p.SignInURL(t.Context(), SignIn{}); !isUnavailable(err) ||
			requests.Load() != 2 {
			t.Errorf("after the end: %v, %d requests", err, requests.Load())
		}
	})
}

// TestEndpointsNeedTLS checks that an issuer with https cannot name endpoints without TLS.
func TestEndpointsNeedTLS(t *testing.T) {
	for _, name := range []string{"", "authorization_endpoint", "token_endpoint", "jwks_uri"} {
		document := documentOf(map[string]string{name: "http://login.example.com/x"})
		p := newTestProvider(func(*http.Request) (*http.Response, error) {
			return answerOf(http.StatusOK, document), nil
		})
		if _, err := p.SignInURL(t.Context(), SignIn{}); isUnavailable(err) != (name != "") {
			t.Errorf("%q without TLS: %v", name, err)
		}
		p.Close()
	}
}

// TestMetadataServicesAreRefused checks an issuer at the address of a cloud metadata service.
func TestMetadataServicesAreRefused(t *testing.T) {
	p := New(Settings{Issuer: "http://169.254.169.254"})
	defer p.Close()
	if _, err := p.SignInURL(t.Context(), SignIn{}); !isUnavailable(err) {
		t.Errorf("error is %v", err)
	}
}
