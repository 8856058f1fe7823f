package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxIndented is the largest JSON, in bytes, that is indented for people who read it. To indent a
// long list takes a fifth of its processor time.
const maxIndented = 16 << 10

// Answer runs a query of the store and writes its result as JSON.
func Answer[T any](s *Site, w http.ResponseWriter, r *http.Request,
	load func(ctx context.Context) (T, error)) {
	var value T
	err := s.query(r.Context(), func(ctx context.Context) (err error) {
		value, err = load(ctx)
		return err
	})
	var bad *param.Error
	switch {
	case err == nil:
		s.StoreAnswered()
		s.WriteJSON(w, http.StatusOK, value)
	case errors.As(err, &bad):
		s.WriteError(w, http.StatusBadRequest, bad.Text)
	case errors.Is(err, storage.ErrNotFound):
		s.WriteError(w, http.StatusNotFound, err.Error())
	default:
		s.StoreFailed(r.Context(), err)
		s.WriteError(w, http.StatusServiceUnavailable, StoreError(err))
	}
}

// StoreError returns a message for a query that failed.
func StoreError(err error) string {
	if errors.Is(err, ErrBusy) {
		return "Too many requests query the database at the same time. Try again."
	}
	return "The database query failed: " + words.OneLine(err.Error(), 500)
}

// WriteJSON writes a value as JSON.
func (s *Site) WriteJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(value); err != nil {
		s.Log.Error().Err(err).Msg("admin answer could not be written as JSON")
		body.Reset()
		body.WriteString(`{"error": "The answer could not be written as JSON."}` + "\n")
		status = http.StatusInternalServerError
	}
	answer := body.Bytes()
	if len(answer) <= maxIndented {
		var indented bytes.Buffer
		// fails only for a text that is not JSON
		if json.Indent(&indented, answer, "", "  ") == nil {
			answer = indented.Bytes()
		}
	}
	WriteBody(w, status, "application/json", answer)
}

// WriteError writes an object with the field error.
func (s *Site) WriteError(w http.ResponseWriter, status int, text string) {
	s.WriteJSON(w, status, struct {
		Error string `json:"error"`
	}{text})
}

// WriteBody writes a complete answer.
func WriteBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

// WritePlain writes one line of text.
func WritePlain(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n") // the client may be gone
}
