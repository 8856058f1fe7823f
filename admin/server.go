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

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// clientTimeouts bounds how long a client may take to send a request. A client that takes longer
// loses its connection.
type clientTimeouts struct {
	header  time.Duration
	request time.Duration // with header and body
}

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	shutdownTimeout   = 5 * time.Second
)

// Server serves the pages and the API of one replica. It is safe for concurrent use.
type Server struct {
	options     Options
	log         zerolog.Logger
	reader      *reader
	site        *pages.Site
	hub         *hub                // nil: no events
	certificate *access.Certificate // nil: plain HTTP
	timeouts    clientTimeouts

	listen func(network, address string) (net.Listener, error)

	mu       sync.Mutex
	listener net.Listener
}

// New checks the options and returns a Server that does not listen yet. It returns an *ExposedError
// for an address beyond loopback without users. All other errors wrap ErrOptions.
func New(options Options) (*Server, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	templates, err := pages.NewTemplates()
	if err != nil {
		return nil, err
	}
	return build(options, templates)
}

// build is New with checked options and with templates, which servers can share.
func build(options Options, templates *pages.Templates) (*Server, error) {
	options.Refresh = cmp.Or(options.Refresh, DefaultRefresh)
	s := &Server{
		options:  options,
		log:      options.Log.With().Str("component", "admin").Logger(),
		timeouts: clientTimeouts{readHeaderTimeout, readTimeout},
		listen:   net.Listen,
	}
	s.reader = newReader(options)
	parts := pages.Parts{Log: s.log, Templates: templates, Queries: pages.NewQueries(),
		Cluster: s.reader.Reader,
		Local:   options.local(), Prefix: options.prefix(), Refresh: options.Refresh,
		Actions: options.Operations != nil}
	if options.Changes != nil {
		s.hub = newHub(options.Changes, parts.Queries.Run, s.log)
		parts.Poll = s.hub.refresh
		parts.Events = func(ctx context.Context, topics []storage.Topic) string {
			if permission.Require(ctx, permission.View,
				permission.Target{Kind: permission.Everything}) != nil {
				return "" // the stream is about the whole cluster
			}
			return s.hub.eventsAddress(topics)
		}
	}
	var err error
	shared := access.Shared{LoginAttempts: options.LoginAttempts, SignOuts: options.SignOuts,
		Events: options.Events, Replica: options.Replica}
	if s.site, err = pages.NewSite(parts, options.Access(), shared); err != nil {
		return nil, err
	}
	if options.Certificate != nil {
		if s.certificate, err = access.NewCertificate(*options.Certificate, s.log); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Listen binds the address of Options.Listen, so that a used address is an error at start. It
// returns an *ExposedError if a host name resolves to an address beyond loopback and there are no
// users. A second call does nothing.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	if s.options.Listen == "" {
		return fmt.Errorf("%w: listen is empty, expected host:port", ErrOptions)
	}
	listener, err := s.listen("tcp", s.options.Listen)
	if err != nil {
		return fmt.Errorf("admin page: %w", err)
	}
	if !s.options.guarded() && beyondLoopback(listener.Addr()) {
		return errors.Join(&ExposedError{Address: s.options.Listen}, listener.Close())
	}
	s.listener = listener
	return nil
}

// beyondLoopback reports whether other machines can reach the address.
func beyondLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
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

// Close ends the event streams and releases the address. It is for a server on which Run is never
// called. A second call does nothing.
func (s *Server) Close() error {
	if s.hub != nil {
		s.hub.stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	err := s.listener.Close()
	s.listener = nil
	return err
}

// Run serves until ctx ends. It calls Listen if that was not done. After ctx ends it lets active
// requests finish for up to five seconds and returns nil. It must be called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	s.mu.Lock()
	listener := s.listener
	s.mu.Unlock()
	server := &http.Server{
		Handler:           access.Track(s.Handler()),
		ConnContext:       access.WithConnection,
		ReadHeaderTimeout: s.timeouts.header,
		ReadTimeout:       s.timeouts.request,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(connectionLog{s.log}, "", 0),
	}
	s.logStart()
	served := make(chan error, 1)
	serve := server.Serve
	if s.certificate != nil {
		server.TLSConfig = s.site.Guard.WithClientCertificates(s.certificate.Config())
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	limited := access.Limit(listener, access.DefaultLimits(s.site.Guard))
	go func() { served <- serve(limited) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin page on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	return s.stop(ctx, server, served)
}

func (s *Server) stop(ctx context.Context, server *http.Server, served <-chan error) error {
	if s.hub != nil {
		s.hub.stop() // streams do not end by themselves
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		s.log.Warn().Err(err).Msg("admin page aborted requests at shutdown")
		_ = server.Close() // Shutdown has already reported the listener's error
	}
	s.site.Guard.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin page: %w", err)
	}
	return nil
}

func (s *Server) logStart() {
	o := &s.options
	s.log.Info().Str("address", s.Addr()).Int("users", len(o.Users)).Int("tokens", len(o.Tokens)).
		Bool("tls", s.certificate != nil).
		Msg("admin page started")
	host, _, err := net.SplitHostPort(s.Addr())
	if err != nil || access.IsLoopback(host) {
		return
	}
	if s.certificate == nil && o.Proxy == nil {
		s.log.Warn().Str("address", s.Addr()).
			Msg("admin page takes passwords without TLS: configure admin.tls, or put a proxy " +
				"with TLS in front of it and name it in admin.trusted_proxy")
	}
	if len(o.Users) > 0 && len(o.CookieKeys) == 0 {
		s.log.Warn().Msg("sign-in cookies are signed with keys from the password hashes: " +
			"configure admin.cookie_keys")
	}
}

// connectionLog receives the log lines of net/http, which concern single connections.
type connectionLog struct{ log zerolog.Logger }

func (l connectionLog) Write(line []byte) (int, error) {
	l.log.Debug().Str("detail", string(line)).Msg("admin connection")
	return len(line), nil
}
