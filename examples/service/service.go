package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
)

// options are what main or a test gives to the service.
type options struct {
	pool       *pgxpool.Pool
	memcached  []string // none: PostgreSQL alone excludes
	password   string
	log        *slog.Logger
	registerer prometheus.Registerer
	more       []holdfast.Option
}

// service takes orders over HTTP.
type service struct {
	pool     *pgxpool.Pool
	log      *slog.Logger
	replica  *holdfast.Replica
	sessions *sessions
	page     http.Handler
}

func newService(o options) (*service, error) {
	s := &service{pool: o.pool, log: o.log,
		sessions: &sessions{password: o.password, users: map[string]string{}}}
	given := []holdfast.Option{
		holdfast.WithPostgresPool(o.pool), holdfast.WithSlog(o.log),
		holdfast.WithRegisterer(o.registerer), holdfast.WithJobs(jobsOfService()...),
	}
	if len(o.memcached) > 0 {
		given = append(given, holdfast.WithMemcached(o.memcached...))
	}
	var err error
	if s.replica, err = holdfast.New(append(given, o.more...)...); err != nil {
		return nil, err
	}
	s.page, err = s.replica.Admin(admin.At("/holdfast/"),
		admin.Authenticate(s.sessions.visitor), admin.SignInAt("/sign-in"))
	return s, err
}

// open makes the service's tables and connects the replica, so that a mistake is an error at start.
func (s *service) open(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, createTables); err != nil {
		return fmt.Errorf("create tables: %w", err)
	}
	return s.replica.Open(ctx)
}

// serve answers requests and runs jobs until ctx ends. The server stops after the replica, so that
// the page shows the last runs.
func (s *service) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s.mux(), ReadHeaderTimeout: 5 * time.Second}
	var parts errgroup.Group
	running, stop := context.WithCancel(ctx)
	parts.Go(func() error {
		err := s.replica.Run(running)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(err, server.Shutdown(grace))
	})
	parts.Go(func() error {
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return parts.Wait()
}

func (s *service) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.takeOrder)
	mux.HandleFunc("GET /orders/{id}", s.showOrder)
	mux.HandleFunc("GET /sign-in", s.sessions.show)
	mux.HandleFunc("POST /sign-in", s.sessions.signIn)
	mux.Handle("/holdfast/", s.page)
	mux.HandleFunc("GET /healthz", probe(func(context.Context) error { return s.replica.Health() }))
	mux.HandleFunc("GET /readyz", probe(s.replica.Ready))
	return mux
}

func probe(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// takeOrder stores an order, and triggers the run that confirms it, in one transaction: there is a
// run if and only if there is an order.
func (s *service) takeOrder(w http.ResponseWriter, r *http.Request) {
	user := s.sessions.user(r)
	if user == "" {
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
		return
	}
	order, amountText := r.FormValue("id"), r.FormValue("amount")
	amount, err := strconv.Atoi(amountText)
	if err != nil || order == "" {
		http.Error(w, "An order needs an id and an amount.", http.StatusBadRequest)
		return
	}
	err = pgx.BeginFunc(r.Context(), s.pool, func(tx pgx.Tx) error {
		if _, err := s.replica.TriggerTx(r.Context(), tx, holdfast.Trigger[confirmParams]{
			Job: "confirm-order", Params: confirmParams{Order: order}, Key: "order " + order,
			Actor: user}); err != nil {
			return err
		}
		_, err := tx.Exec(r.Context(), "INSERT INTO orders (id, amount) VALUES ($1, $2)", order,
			amount)
		return err
	})
	if err != nil {
		s.log.WarnContext(r.Context(), "order refused", "order", order, "error", err)
		http.Error(w, "The order was not stored.", http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// showOrder says whether an order is confirmed.
func (s *service) showOrder(w http.ResponseWriter, r *http.Request) {
	var confirmed bool
	err := s.pool.QueryRow(r.Context(), "SELECT confirmed FROM orders WHERE id = $1",
		r.PathValue("id")).Scan(&confirmed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case confirmed:
		fmt.Fprintln(w, "confirmed")
	default:
		fmt.Fprintln(w, "taken")
	}
}
