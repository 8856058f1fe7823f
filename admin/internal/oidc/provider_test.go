package oidc

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestDiscoveryIsRepeated has a provider that answers the second request for its document.
func TestDiscoveryIsRepeated(t *testing.T) {
	requests := 0
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			http.Error(w, "not yet", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer": "` + server.URL + `"}`))
	}))
	defer server.Close()
	p := New(Settings{Issuer: server.URL})
	for range 10 {
		var unavailable *UnavailableError
		if err := p.Ready(t.Context()); !errors.As(err, &unavailable) {
			t.Errorf("error is %v", err)
		}
	}
	if requests != 1 {
		t.Errorf("%d requests within %s, want 1", requests, discoveryInterval)
	}
	p.last = time.Now().Add(-discoveryInterval)
	for range 10 {
		if err := p.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if requests != 2 {
		t.Errorf("%d requests, want 2", requests)
	}
}

// TestMetadataServicesAreRefused has an issuer at the address of a metadata service.
func TestMetadataServicesAreRefused(t *testing.T) {
	if err := New(Settings{Issuer: "http://169.254.169.254"}).Ready(t.Context()); err == nil ||
		!errors.As(err, new(*UnavailableError)) {
		t.Errorf("error is %v", err)
	}
}
