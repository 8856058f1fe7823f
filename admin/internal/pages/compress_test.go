package pages

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestCompress(t *testing.T) {
	long, short := strings.Repeat("word ", 1000), "short"
	const html, stream = "text/html; charset=utf-8", "text/event-stream"
	for name, c := range map[string]struct {
		accept, kind, body, method string
		encoding                   string // of the response
		vary                       bool
	}{
		"html":        {"gzip, deflate, br", html, long, http.MethodGet, "gzip", true},
		"json":        {"gzip", "application/json", long, http.MethodGet, "gzip", true},
		"script":      {"GZIP;q=0.5", "text/javascript", long, http.MethodGet, "gzip", true},
		"short":       {"gzip", html, short, http.MethodGet, "", false},
		"picture":     {"gzip", "image/png", long, http.MethodGet, "", false},
		"stream":      {"gzip", stream, long, http.MethodGet, "", false},
		"head":        {"gzip", html, long, http.MethodHead, "", true},
		"not wanted":  {"br", html, long, http.MethodGet, "", true},
		"refused":     {"gzip;q=0", html, long, http.MethodGet, "", true},
		"no encoding": {"", html, long, http.MethodGet, "", true},
	} {
		handler := Compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			WriteBody(w, http.StatusTeapot, c.kind, []byte(c.body))
		}))
		request := httptest.NewRequestWithContext(t.Context(), c.method, "/", nil)
		if c.accept != "" {
			request.Header.Set("Accept-Encoding", c.accept)
		}
		reply := httptest.NewRecorder()
		handler.ServeHTTP(reply, request)
		h := reply.Header()
		if got := h.Get("Content-Encoding"); got != c.encoding || reply.Code != http.StatusTeapot ||
			(h.Get("Vary") != "") != c.vary {
			t.Errorf("%s: %d, encoding %q, Vary %q", name, reply.Code, got, h.Get("Vary"))
		}
		body := io.Reader(reply.Body)
		if c.encoding != "" {
			if h.Get("Content-Length") != "" || reply.Body.Len() >= len(c.body) {
				t.Errorf("%s: %s of %d bytes", name, h.Get("Content-Length"), reply.Body.Len())
			}
			unzipped, err := gzip.NewReader(reply.Body)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body = unzipped
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != c.body {
			t.Errorf("%s: body of %d bytes, %v", name, len(got), err)
		}
	}
}

// TestCompressLeavesEncodedAnswers checks that responses with an encoding are not compressed again.
// The metrics handler compresses its own responses.
func TestCompressLeavesEncodedAnswers(t *testing.T) {
	handler := Compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		WriteBody(w, http.StatusOK, "text/plain", make([]byte, 4096))
	}))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	reply := httptest.NewRecorder()
	handler.ServeHTTP(reply, request)
	if got := reply.Header().Get("Content-Encoding"); got != "zstd" || reply.Body.Len() != 4096 {
		t.Errorf("encoding %q, %d bytes", got, reply.Body.Len())
	}
}

// TestCompressedStreamsFlush checks that a compressed handler can flush events and set deadlines.
func TestCompressedStreamsFlush(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(Compress(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			control := http.NewResponseController(w)
			if err := control.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "event: runs\n\n")
			if err := control.Flush(); err != nil {
				t.Error(err)
			}
			<-release
		})))
	defer server.Close()
	defer close(release)
	reply, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	got := make([]byte, len("event: runs\n\n"))
	if _, err := io.ReadFull(reply.Body, got); err != nil || string(got) != "event: runs\n\n" {
		t.Errorf("got %q (%v), want the event", got, err)
	}
}
