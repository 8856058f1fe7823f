package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// operate lets those who call the service do what operators do, through any
// replica: it is in the audit log with their names. A service in earnest asks who
// they are before.
func operate(mux *http.ServeMux, replica *holdfast.Replica) {
	operations := replica.Operations()
	orders := storage.Target{Kind: storage.TargetJob, Name: "take-orders"}

	mux.HandleFunc("POST /refresh/{region}", func(w http.ResponseWriter, r *http.Request) {
		// Requests of one user with the same region and key give the same run.
		run, err := operations.Trigger(r.Context(), by(r),
			storage.TriggerRequest{Job: "refresh-sales-" + r.PathValue("region"),
				Key: r.FormValue("key")})
		answer(w, run.ID, err)
	})
	mux.HandleFunc("POST /close", func(w http.ResponseWriter, r *http.Request) {
		pause, err := operations.Pause(r.Context(), by(r), orders)
		answer(w, pause.Target, err)
	})
	mux.HandleFunc("POST /open", func(w http.ResponseWriter, r *http.Request) {
		pause, err := operations.Resume(r.Context(), by(r), orders)
		answer(w, pause.Target, err)
	})
}

// by says who acts, for the audit log.
func by(r *http.Request) storage.Action {
	return storage.Action{Actor: r.FormValue("user"), Via: "api", Reason: "asked of the service"}
}

func answer(w http.ResponseWriter, done any, err error) {
	switch {
	case err == nil:
		fmt.Fprintln(w, done)
	case errors.Is(err, storage.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, storage.ErrPaused), errors.Is(err, storage.ErrConflict):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
