package access

import (
	"net/http"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

func TestActionsOnAServerWithoutUsers(t *testing.T) {
	handler := newHandler(t, Policy{Hosts: []string{accesstest.Host}})
	const own, site = "http://" + accesstest.Host, "Sec-Fetch-Site"
	for _, c := range []struct {
		sender string
		header map[string]string
		want   int
	}{
		{"program", nil, 403},
		{"program with the header", map[string]string{ActionHeader: "1"}, 200},
		{"program with another value", map[string]string{ActionHeader: "true"}, 403},
		{"form of the page", map[string]string{site: "same-origin", "Origin": own}, 200},
		{"form of the page in an old browser", map[string]string{"Origin": own}, 200},
		{"address bar", map[string]string{site: "none"}, 403},
		{"origin that is not compared",
			map[string]string{site: "none", "Origin": "https://evil.example"}, 403},
		{"another site",
			map[string]string{site: "cross-site", "Origin": "https://evil.example"}, 403},
		{"another site with the header",
			map[string]string{site: "cross-site", ActionHeader: "1"}, 403},
		{"another site in an old browser", map[string]string{"Origin": "https://evil.example"},
			403},
		{"another port", map[string]string{site: "same-site", "Origin": own + ":81"}, 403},
		{"document without an origin", map[string]string{"Origin": "null"}, 403},
	} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch,
			http.MethodDelete} {
			reply := accesstest.Ask(handler, method, "/api/v1/pause", func(r *http.Request) {
				for name, value := range c.header {
					r.Header.Set(name, value)
				}
			})
			if reply.Code != c.want {
				t.Errorf("%s: %s: %d, want %d: %s", c.sender, method, reply.Code, c.want,
					reply.Body)
			}
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		if reply := accesstest.Ask(handler, method, "/"); reply.Code != http.StatusOK {
			t.Errorf("%s: got %d, want 200", method, reply.Code)
		}
	}
}

func TestActionsOfUsersNeedNoHeader(t *testing.T) {
	reply := accesstest.Ask(newHandler(t, testPolicy(t)), http.MethodPost, "/api/v1/pause",
		accesstest.WithHeader("Authorization", "Bearer "+accesstest.DeployToken))
	if reply.Code != http.StatusOK {
		t.Errorf("got %d %s, want 200", reply.Code, reply.Body)
	}
}
