package admin

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

// answer runs a query of the store and writes its result as JSON.
func answer[T any](s *Site, w http.ResponseWriter, r *http.Request,
	load func(ctx context.Context) (T, error)) {
	var value T
	err := s.queries.run(r.Context(), func(ctx context.Context) (err error) {
		value, err = load(ctx)
		return err
	})
	var bad *param.Error
	switch {
	case err == nil:
		s.storeAnswered()
		s.writeJSON(w, http.StatusOK, value)
	case errors.As(err, &bad):
		s.writeError(w, http.StatusBadRequest, bad.Text)
	case errors.Is(err, storage.ErrNotFound):
		s.writeError(w, http.StatusNotFound, err.Error())
	default:
		s.storeFailed(r.Context(), err)
		s.writeError(w, http.StatusServiceUnavailable, storeTrouble(err))
	}
}

// storeTrouble returns a message for a query that failed.
func storeTrouble(err error) string {
	return "The store could not be asked: " + words.OneLine(err.Error(), 500)
}

func (s *Site) writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		s.log.Error().Err(err).Msg("admin answer could not be written as JSON")
		body.Reset()
		body.WriteString(`{"error": "The answer could not be written as JSON."}` + "\n")
		status = http.StatusInternalServerError
	}
	writeBody(w, status, "application/json", body.Bytes())
}

func (s *Site) writeError(w http.ResponseWriter, status int, text string) {
	s.writeJSON(w, status, struct {
		Error string `json:"error"`
	}{text})
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

func writePlain(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line+"\n") // the client may be gone
}
