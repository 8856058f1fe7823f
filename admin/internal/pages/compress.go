package pages

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// minCompressed is the length in bytes from which answers are compressed. Shorter ones fit into one
// packet anyway.
const minCompressed = 1 << 10

// compressor compresses answers with gzip. It is safe for concurrent use.
type compressor struct{ writers sync.Pool }

// Compress compresses complete text answers for clients that accept gzip. Event streams and answers
// that are encoded already pass unchanged. No page contains a secret, so that compression reveals
// none to a client that chooses a part of the page.
func Compress(next http.Handler) http.Handler {
	c := &compressor{sync.Pool{New: newWriter}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cw := &compressedWriter{ResponseWriter: w, compressor: c,
			accepted: r.Method != http.MethodHead && acceptsGzip(r.Header)}
		next.ServeHTTP(cw, r)
		cw.close() // not after a panic: the client must see that the answer is incomplete
	})
}

// newWriter returns a writer with the fastest compression. A page is read once, mostly on a fast
// network, and compression must not take processor time from jobs.
func newWriter() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(h http.Header) bool {
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			_, text, given := strings.Cut(weight, "=")
			q, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return !given || err == nil && q > 0
		}
	}
	return false
}

// compressedWriter compresses the body if the header of the answer allows it.
type compressedWriter struct {
	http.ResponseWriter
	compressor *compressor
	accepted   bool
	begun      bool
	gzip       *gzip.Writer // nil: not compressed
}

// Unwrap returns the writer for http.ResponseController.
func (w *compressedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader decides whether the answer is compressed.
func (w *compressedWriter) WriteHeader(status int) {
	if h := w.Header(); !w.begun && status >= http.StatusOK {
		w.begun = true
		if compressible(h) {
			h.Add("Vary", "Accept-Encoding")
			if w.accepted {
				h.Del("Content-Length")
				h.Set("Content-Encoding", "gzip")
				w.gzip = w.compressor.writers.Get().(*gzip.Writer)
				w.gzip.Reset(w.ResponseWriter)
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// compressible reports whether an answer is a complete text of some length.
func compressible(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	length, err := strconv.Atoi(h.Get("Content-Length"))
	return err == nil && length >= minCompressed && h.Get("Content-Encoding") == "" &&
		kind != "text/event-stream" &&
		(strings.HasPrefix(kind, "text/") || kind == "application/json" || kind == "image/svg+xml")
}

// Write writes a part of the body.
func (w *compressedWriter) Write(body []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.gzip != nil {
		return w.gzip.Write(body)
	}
	return w.ResponseWriter.Write(body)
}

// close completes a compressed body.
func (w *compressedWriter) close() {
	if w.gzip == nil {
		return
	}
	_ = w.gzip.Close() // the client may be gone
	w.compressor.writers.Put(w.gzip)
	w.gzip = nil
}
