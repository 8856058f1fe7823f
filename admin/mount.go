package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Option changes the Options of a page that is mounted in another server. holdfast.Replica.Admin
// takes them.
type Option func(*Options)

// Mount makes the page of a replica with all options, for holdfast.Replica.Admin. Each of them must
// be an Option of this package. The errors wrap ErrOptions.
func (o Option) Mount(access page.Access, all []page.Option) (page.Mounted, error) {
	change := make([]Option, len(all))
	for i, given := range all {
		ours, known := given.(Option)
		if !known || ours == nil {
			return nil, fmt.Errorf("%w: found %T, expected an option of package admin",
				ErrOptions, given)
		}
		change[i] = ours
	}
	m, err := NewMount(optionsFor(access), change...)
	if err != nil {
		return nil, err
	}
	return mountedPage{m}, nil
}

// At sets the path under which browsers reach the page, such as /holdfast/. Without it, the path
// is /.
func At(path string) Option { return func(o *Options) { o.Prefix = path } }

// Visitor is the sender of a request, as the sign-in of the program knows it. The zero Visitor is a
// sender who is not signed in.
type Visitor struct {
	Name string // for the audit log: at most 200 bytes, without control characters
	Role Role   // a predefined role such as Viewer, or a role of the configuration
	// Scope limits the visitor to a part of the role; nil: no limit.
	Scope *permission.Grant
}

// Authenticate replaces the users, tokens and OpenID Connect of the configuration: f returns the
// sender of a request. The request has its original path. After an error of f, the request is
// answered with 503, and the error is logged. f must be safe for concurrent use.
func Authenticate(f func(*http.Request) (Visitor, error)) Option {
	return func(o *Options) {
		o.Authenticate = nil
		if f != nil {
			o.Authenticate = func(r *http.Request) (access.Visitor, error) {
				v, err := f(r)
				return access.Visitor(v), err
			}
		}
		o.Users, o.Tokens, o.OIDC = nil, nil, nil
		if o.Proxy != nil {
			proxy := *o.Proxy
			proxy.UserHeader, proxy.Operators = "", nil
			o.Proxy = &proxy
		}
	}
}

// SignInAt sends browsers to the sign-in page of the program: see Options.SignInURL.
func SignInAt(url string) Option { return func(o *Options) { o.SignInURL = url } }

// APIOnly leaves out everything except the API under /api/.
func APIOnly() Option { return func(o *Options) { o.APIOnly = true } }

// Mount is a page that an HTTP server of the program serves. It answers 503 before Begin and after
// End. It is safe for concurrent use.
type Mount struct {
	change []Option
	server atomic.Pointer[mounted]
}

// mounted is a server with its handler.
type mounted struct {
	*Server
	handler http.Handler
}

// NewMount returns a page that applies each Option in change: see Mount.Options. In base, Store and
// Replica may be missing. The errors wrap ErrOptions.
func NewMount(base Options, change ...Option) (*Mount, error) {
	m := &Mount{change: slices.Clone(change)}
	o := m.Options(base)
	var problems []error
	o.checkAccess(func(format string, args ...any) {
		problems = append(problems,
			fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	})
	if err := errors.Join(append(problems, o.checkAddress())...); err != nil {
		return nil, err
	}
	return m, nil
}

// Options copies base, clears Listen, Certificate and Prefix of the copy, applies each Option of
// this page to the copy, and returns it.
func (m *Mount) Options(base Options) Options {
	base.Listen, base.Certificate, base.Prefix = "", nil, ""
	for _, change := range m.change {
		change(&base)
	}
	return base
}

// Server returns the server of the page, or nil.
func (m *Mount) Server() *Server {
	if now := m.server.Load(); now != nil {
		return now.Server
	}
	return nil
}

// Begin gives the page a server, with the options that Mount.Options returns for base. Store and
// Replica must be set.
func (m *Mount) Begin(base Options) error {
	server, err := New(m.Options(base))
	if err == nil {
		m.server.Store(&mounted{server, server.Handler()})
	}
	return err
}

// End removes the server of the page, and ends its event streams.
func (m *Mount) End() error {
	if last := m.server.Swap(nil); last != nil {
		return last.Close()
	}
	return nil
}

// ServeHTTP serves the page.
func (m *Mount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if now := m.server.Load(); now != nil {
		now.handler.ServeHTTP(w, r)
		return
	}
	const text = "The scheduler of this service is starting or has stopped. Try again in a moment."
	w.Header().Set("Retry-After", "5")
	w.Header().Set("Cache-Control", "no-store")
	if strings.Contains(r.URL.Path, "/api/") {
		pages.WriteBody(w, http.StatusServiceUnavailable, "application/json",
			[]byte(`{"error": "`+text+`"}`+"\n"))
		return
	}
	pages.WritePlain(w, http.StatusServiceUnavailable, text)
}
