package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
)

const maxListBytes = 16 << 20 // of what a source may send; more than a Memo stores

// replica answers for lists.
type replica struct {
	name   string
	lists  *locking.Memo
	ttl    time.Duration
	source string
	ready  func(context.Context) error
	log    zerolog.Logger
}

// list is what is stored.
type list struct {
	Name       string          `json:"list"`
	ComputedBy string          `json:"computed_by"`
	ComputedAt time.Time       `json:"computed_at"`
	Rows       json.RawMessage `json:"rows"`
}

// reply is what is answered.
type reply struct {
	ServedBy string `json:"served_by"`
	list
}

func (r *replica) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /list/{name}", r.serveList)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, request *http.Request) {
		if err := r.ready(request.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// serveList answers with the list, which any replica may have computed. If the client leaves during
// the computation, the computation is cancelled and the next waiting request starts another.
// context.WithoutCancel would let it continue.
func (r *replica) serveList(w http.ResponseWriter, request *http.Request) {
	name := request.PathValue("name")
	r.log.Info().Str("list", name).Msg("list asked for")
	value, err := r.lists.Do(request.Context(), name, r.ttl,
		func(ctx context.Context) ([]byte, error) {
			return r.compute(ctx, name)
		})
	var unshared *locking.UnsharedError
	switch {
	case errors.As(err, &unshared):
		// This client gets the computed list, although no other request will.
		r.log.Warn().Err(err).Msg("list not shared")
		value = unshared.Value
	case errors.Is(err, locking.ErrBadName):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		// Without memcached every request would go to the source: better none.
		r.log.Warn().Err(err).Msg("list not served")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer := reply{ServedBy: r.name}
	if err := json.Unmarshal(value, &answer.list); err != nil {
		http.Error(w, fmt.Sprintf("list %s: %v", name, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		r.log.Debug().Err(err).Msg("client left")
	}
}

// compute has the source make the list.
func (r *replica) compute(ctx context.Context, name string) ([]byte, error) {
	r.log.Info().Str("list", name).Msg("list is being computed")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		r.source+"/"+url.PathEscape(name), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Replica", r.name)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	rows, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, maxListBytes))
	if err != nil {
		return nil, fmt.Errorf("source of list %s: %w", name, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("source of list %s: %s", name, response.Status)
	}
	return json.Marshal(list{Name: name, ComputedBy: r.name, ComputedAt: time.Now().UTC(),
		Rows: rows})
}
