package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// The server's own limits: a slow or greedy client loses its connection, not
// the replica its memory.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	shutdownTimeout   = 5 * time.Second
)

// Server serves the page and the API of one replica. Its methods may be called
// concurrently.
type Server struct {
	options Options
	log     zerolog.Logger
	reader  *reader
	pages   *pages
	assets  *assets
	doors   *doors
	last    lastSeen

	mu       sync.Mutex
	listener net.Listener
}

// New checks the options and returns a Server that does not listen yet. It
// returns an *ExposedError for an address beyond loopback without users, and
// errors that wrap ErrOptions for everything else.
func New(options Options) (*Server, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	options.Refresh = cmp.Or(options.Refresh, DefaultRefresh)
	assets, err := newAssets()
	if err != nil {
		return nil, fmt.Errorf("admin assets: %w", err)
	}
	pages, err := newPages(assets)
	if err != nil {
		return nil, fmt.Errorf("admin templates: %w", err)
	}
	doors, err := newDoors(options.Users)
	if err != nil {
		return nil, fmt.Errorf("admin users: %w", err)
	}
	return &Server{
		options: options,
		log:     options.Log.With().Str("component", "admin").Logger(),
		reader:  newReader(options),
		pages:   pages,
		assets:  assets,
		doors:   doors,
	}, nil
}

// Listen takes the address, so that one that is taken is an error at start. It
// returns an *ExposedError when a host name turns out to be beyond loopback
// and there are no users. A second call does nothing.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", s.options.Listen)
	if err != nil {
		return fmt.Errorf("admin page: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if len(s.options.Users) == 0 && (!ok || !address.IP.IsLoopback()) {
		return errors.Join(&ExposedError{Address: s.options.Listen}, listener.Close())
	}
	s.listener = listener
	return nil
}

// Addr returns the address that the server listens on, or "" before Listen.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Close gives the address back where Listen was called and Run will not be.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	err := s.listener.Close()
	s.listener = nil
	return err
}

// Run serves until ctx ends, listening first if Listen was not called. Then it
// lets answers under way finish for up to five seconds and returns nil. It is
// called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(connectionLog{s.log}, "", 0),
	}
	s.logStart()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin page on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	return s.stop(ctx, server, served)
}

func (s *Server) stop(ctx context.Context, server *http.Server, served <-chan error) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		s.log.Warn().Err(err).Msg("admin page cut off requests that did not end in time")
		_ = server.Close() // it only repeats what Shutdown said of the listener
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin page: %w", err)
	}
	return nil
}

func (s *Server) logStart() {
	s.log.Info().Str("address", s.Addr()).Int("users", len(s.options.Users)).Msg("admin page is served")
	if host, _, err := net.SplitHostPort(s.Addr()); err == nil && !isLoopback(host) {
		s.log.Warn().Str("address", s.Addr()).
			Msg("admin page takes passwords without TLS: put a proxy with TLS in front of it")
	}
}

// connectionLog takes the lines of net/http, which are about single
// connections and seldom matter.
type connectionLog struct{ log zerolog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.log.Debug().Str("detail", string(line)).Msg("admin connection")
	return len(line), nil
}
