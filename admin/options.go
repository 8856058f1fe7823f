package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/mount"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// DefaultRefresh is the refresh interval without Options.Refresh.
const DefaultRefresh = 5 * time.Second

// minRefresh bounds the load of open pages on the store.
const minRefresh = 5 * time.Second

// ErrOptions is wrapped by every error about Options except ExposedError.
var ErrOptions = errors.New("admin options")

// ExposedError reports that a server without users has an address that other machines can reach.
type ExposedError struct {
	Address string
}

// Error names the address and the remedy.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("admin page on %s could be used from other machines and has no users: "+
		"listen on 127.0.0.1 or [::1], or configure users", e.Address)
}

// Options configure a Server. Store and Replica are required, and Listen too unless the server is
// only a handler.
type Options struct {
	// Listen is the address, as host:port. Beyond loopback it requires users: Users, Tokens, OIDC,
	// a Proxy that names users, or Authenticate. "": Handler is mounted in another server. This
	// requires users too.
	Listen string
	// Prefix is the path under which browsers reach the server, such as /holdfast/. "" is /. A
	// proxy in front of the server may remove it from requests or keep it.
	Prefix string
	// APIOnly leaves out everything except the API under /api/.
	APIOnly bool
	// Authenticate returns the sender of a request, instead of Users, Tokens, OIDC and the users of
	// the Proxy, which must not be set. The request has its original path. A zero Visitor is a
	// sender who is not signed in. After an error the request is answered with 503, and the error
	// is logged. It must be safe for concurrent use.
	Authenticate func(*http.Request) (access.Visitor, error)
	// SignInURL is where a browser is sent if Authenticate returns the zero Visitor. The query
	// parameter next has the address of the page. "": the answer is 401.
	SignInURL string
	// Hosts are the host names of the server besides loopback names, in lower case, without port. A
	// server on which senders sign in also answers to IP addresses. With Authenticate it answers to
	// all names.
	Hosts       []string
	Certificate *Certificate // nil: plain HTTP
	// Users may sign in. Every sender is an operator if there are no Users, no Tokens, no OIDC, no
	// Proxy that names users, and no Authenticate.
	Users  []User
	Tokens []Token
	Proxy  *Proxy // nil: no proxy is trusted
	OIDC   *OIDC  // nil: no provider signs people in
	// Roles are added to the predefined ones.
	Roles []permission.Role
	// Authorizer decides about permissions. Nil: the roles decide. With it, roles may have any
	// name.
	Authorizer permission.Authorizer
	// CookieKeys are secrets of at least 32 bytes, the same on every replica. The first one signs,
	// all verify. Without keys, the server derives them from the users' hashes.
	CookieKeys [][]byte
	// LoginAttempts counts failed sign-ins for all replicas. Nil: each replica counts its own.
	LoginAttempts storage.LoginAttempts
	// SignOuts stores sign-outs, which end sign-ins at all replicas. Nil: they end sign-ins only at
	// this replica.
	SignOuts storage.SignOuts
	// Events writes sign-ins, sign-outs and refusals to the audit log. Nil: they are only logged.
	Events storage.AuditWriter
	// Restarts of memcached, for the timeline; may be nil.
	Restarts storage.Restarts
	// Heartbeats returns the heartbeats of a session that this replica saw in the last 10 minutes,
	// oldest first. Nil: they are not shown.
	Heartbeats func(session uuid.UUID) []storage.HeartbeatView

	Store     storage.History
	StoreName string // for people, such as PostgreSQL; "" means "The store"
	Rules     Rules  // of the status
	// Progress reads the state that jobs save for their next runs. Nil: it is not shown.
	Progress storage.JobProgress
	// Watch makes a running run save its output regularly. Nil: output appears when the run has
	// ended.
	Watch func(ctx context.Context, run uuid.UUID) error
	// Operations run the actions of operators. Nil: the server is read-only.
	Operations *operations.Operations
	// Reload makes this replica read its configuration again. It returns a *ReloadError for
	// mistakes. It must be safe for concurrent use. Nil: the API does not reload.
	Reload    func(ctx context.Context, by storage.Action) (Reloaded, error)
	Advisory  Advisory  // nil: there are no advisory locks
	Memcached Memcached // nil: advisory locks are not in memcached
	// Databases returns the databases of jobs by name. It must be safe for concurrent use and must
	// not block. Nil: there are none.
	Databases func() []JobDatabase

	Replica string // name of this replica
	// Session returns the id of this replica's session, which changes after a lost session. A nil
	// function or a zero id means that there is none.
	Session func() uuid.UUID
	Version string // of the binary

	// Upcoming returns the next firing after start of each job in this replica's cron table, the
	// soonest first, at most n. It must be safe for concurrent use. Nil: no firings are shown.
	Upcoming func(start time.Time, n int) []ScheduledFiring
	// ScheduledTimes returns the next scheduled times after start of one job in this replica's cron
	// table, at most n. It must be safe for concurrent use. Nil: no scheduled times are shown.
	ScheduledTimes func(job string, start time.Time, n int) []time.Time
	// LongestWait returns how long a firing of a job waits for a lock that is held, but at most
	// limit. It returns false if that is not known. It must be safe for concurrent use and may be
	// nil.
	LongestWait func(job string, limit time.Duration) (time.Duration, bool)
	// WaitEnd returns when a waiting run stops waiting for its blocker, by the policies of its job.
	// It returns false if that is not known. It must be safe for concurrent use and may be nil.
	WaitEnd func(run storage.Record) (storage.WaitEnd, bool)
	// Explain explains a job's firing at a time in the format of schedule.ParseTime. It must be
	// safe for concurrent use. Nil: the explanation uses only the store.
	Explain func(ctx context.Context, job, at string) (explain.Explanation, error)
	// Table is the cron table of this replica, with jobs that were added at run time. It must be
	// safe for concurrent use. Nil: jobs are shown without their params and policies.
	Table explain.Table
	// Changes notifies open pages of changes in the cluster at once. Nil: pages only refresh
	// regularly.
	Changes Changes
	// Ready returns why this replica can't start runs, or nil. It must be safe for concurrent use.
	// A nil Ready is always ready.
	Ready func(ctx context.Context) error

	// Metrics serves scrapes; may be nil.
	Metrics http.Handler
	// Trace returns the trace of a run. It must be safe for concurrent use. Nil: there are no
	// traces.
	Trace func(run uuid.UUID) Trace

	// Refresh is the refresh interval of open pages that get no events, at least 5 s. 0 means
	// DefaultRefresh.
	Refresh time.Duration
	Log     zerolog.Logger
}

// check reports all mistakes at once.
func (o *Options) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems,
			fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	if o.Store == nil {
		bad("a store is needed")
	}
	if o.Replica == "" {
		bad("the replica's name is needed")
	}
	if o.Refresh < 0 || o.Refresh > 0 && o.Refresh < minRefresh {
		bad("refresh is %s, expected at least %s", o.Refresh, minRefresh)
	}
	if o.Proxy != nil && o.Proxy.ClientCAs != nil && o.Certificate == nil &&
		o.Listen != "" {
		bad("a proxy with a client certificate needs TLS at the server")
	}
	o.checkAccess(bad)
	return errors.Join(append(problems, o.checkAddress())...)
}

// checkAccess calls bad for each mistake in the prefix and in who may use the server.
func (o *Options) checkAccess(bad func(format string, args ...any)) {
	policy := o.Access()
	policy.Check(bad)
	prefix, err := mount.Parse(o.Prefix)
	if err != nil {
		bad("%w", err)
		return
	}
	if o.OIDC == nil {
		return
	}
	want := string(prefix) + access.CallbackPath
	redirect, err := url.Parse(o.OIDC.RedirectURL)
	if err == nil && strings.HasSuffix(redirect.Path, access.CallbackPath) &&
		redirect.Path != want {
		bad("the redirect URL of OpenID Connect is %q, expected the path %s", o.OIDC.RedirectURL,
			want)
	}
}

// prefix returns the Prefix of checked options.
func (o *Options) prefix() mount.Prefix {
	prefix, err := mount.Parse(o.Prefix)
	if err != nil {
		return "" // check has refused it
	}
	return prefix
}

func (o *Options) storeName() string { return cmp.Or(o.StoreName, "The store") }

// Access returns the part of the options that SetAccess replaces.
func (o *Options) Access() Access {
	return Access{Hosts: o.Hosts, Users: o.Users, Tokens: o.Tokens, Proxy: o.Proxy,
		OIDC: o.OIDC, CookieKeys: o.CookieKeys, Roles: o.Roles, Authorizer: o.Authorizer,
		Authenticate: o.Authenticate, SignInURL: o.SignInURL}
}

// local returns what only this replica knows.
func (o *Options) local() cluster.Local {
	return cluster.Local{Replica: o.Replica, Version: o.Version, Session: o.Session, Ready: o.Ready,
		Servers: o.Memcached, Databases: o.Databases, StoreName: o.storeName(), Rules: o.Rules,
		Hold: new(cluster.Hold)}
}

// guarded reports whether requests need proof of identity.
func (o *Options) guarded() bool {
	policy := o.Access()
	return policy.Guarded()
}

// checkAddress refuses a literal address beyond loopback. Listen checks the address that a host
// name resolves to.
func (o *Options) checkAddress() error {
	if o.Listen == "" {
		if !o.guarded() {
			return fmt.Errorf("%w: a page in another server could be used from other machines "+
				"and has no users: use Authenticate, or configure users", ErrOptions)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("%w: listen is %q, expected host:port such as 127.0.0.1:8080", ErrOptions,
			o.Listen)
	}
	if o.guarded() {
		return nil
	}
	ip := net.ParseIP(host)
	if host == "" || ip != nil && !ip.IsLoopback() {
		return &ExposedError{Address: o.Listen}
	}
	return nil
}
