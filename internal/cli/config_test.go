package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestConfigReloadNamesOtherReplicas reloads one of several replicas. The list may be refused.
func TestConfigReloadNamesOtherReplicas(t *testing.T) {
	const live = `{"replica": "web-1", "state": "live"}`
	for list, want := range map[string]string{
		"[" + live + "]": "",
		`[` + live + `, {"replica": "web-2", "state": "late"}, {"replica": "web-2", "state": "live"},
			{"replica": "web-3", "state": "live"}, {"replica": "web-4", "state": "stopped"}]`: "scheduler: only web-1 has reloaded; to reload web-2, web-3, use the address of each " +
			"as --server, or send SIGHUP\n",
		`{"error": "no permission\u001b[2J"}`: "scheduler: only web-1 has reloaded; " +
			"the other replicas cannot be listed: no permission [2J\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path == "/api/v1/reload":
					_, _ = io.WriteString(w, `{"replica": "web-1", "added": ["load"]}`)
				case strings.Contains(list, "error"):
					w.WriteHeader(http.StatusForbidden)
					fallthrough
				default:
					_, _ = io.WriteString(w, list)
				}
			}))
		got := perform(t, nil, "config", "reload", "--server", server.URL)
		server.Close()
		if got.code != 0 || got.notes != want || !strings.Contains(got.out, "load") {
			t.Errorf("got %+v, want the note %q", got, want)
		}
	}
}

// TestConfigReload reloads a replica by its API, and checks the actor in the audit log.
func TestConfigReload(t *testing.T) {
	s := serve(t)
	token := s.token(t, operatorToken)
	reload := func(token string) outcome {
		return perform(t, nil, "config", "reload", "--server", s.server, "--token-file", token,
			"--reason", "deploy")
	}
	written, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(string(written), "name: weekly", "name: monthly", 1) + "workers: 3\n")
	got := reload(token).normal()
	if got.code != 0 || !strings.Contains(got.out, "web-1 monthly weekly workers") ||
		got.notes != "" {
		t.Errorf("got %+v, want the changed jobs and the key that needs a restart", got)
	}
	write(string(written) + "wrokers: 3\n")
	if got := reload(token); got.code != 1 || !strings.Contains(got.err, "found 1 mistake in") ||
		strings.Contains(got.err, "wrokers") {
		t.Errorf("got %+v, want the number of mistakes without their text", got)
	}
	if got := reload(s.token(t, viewerToken)); got.code != 1 ||
		!strings.Contains(got.err, "permission reload") {
		t.Errorf("got %+v for a viewer, want the missing permission", got)
	}
	if got := perform(t, nil, "config", "reload", "-c", s.config); got.code != 1 ||
		!strings.Contains(got.err, "expected --server") {
		t.Errorf("got %+v without a server", got)
	}
	write(string(written))
	for action, reason := range map[string]string{"reload": "deploy", "reload_refused": "deploy"} {
		lines := perform(t, nil, "audit", "--action", action, "-o", "wide", "-c", s.config).out
		if !strings.Contains(lines, " api ") || !strings.Contains(lines, reason) ||
			strings.Contains(lines, "replica web-1 go") {
			t.Errorf("%s: got %s, want the token as the actor", action, lines)
		}
	}
}
