package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// source makes lists, and takes its time over each.
type source struct {
	takes time.Duration
	log   zerolog.Logger
}

func (s source) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, request *http.Request) {
		name := request.PathValue("name")
		s.log.Info().Str("list", name).Str("replica", request.Header.Get("Replica")).
			Msg("list is being made")
		select {
		case <-time.After(s.takes):
			if err := json.NewEncoder(w).
				Encode([]string{name + " 1", name + " 2", name + " 3"}); err != nil {
				s.log.Debug().Err(err).Msg("replica left")
			}
		case <-request.Context().Done():
		}
	})
	return mux
}
