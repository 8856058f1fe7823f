package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// DefaultRefresh is how often the page asks again unless Options say otherwise.
const DefaultRefresh = 5 * time.Second

// minRefresh keeps open pages from asking the store all the time.
const minRefresh = 5 * time.Second

// ErrOptions is wrapped by every error about Options, but ExposedError.
var ErrOptions = errors.New("admin options")

// ExposedError says that the address can be reached from other machines while
// no users are configured.
type ExposedError struct {
	Address string
}

// Error names the address and what to do.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("admin page on %s could be used from other machines and has no users: "+
		"listen on 127.0.0.1 or [::1], or configure users", e.Address)
}

// Stage1 tells who holds resources by stage 1. *locking.Locker implements it.
type Advisory interface {
	// Inspect returns the holders of those resources that are locked
	// exclusively, or an error when stage 1 could not be asked.
	Inspect(ctx context.Context, resources []locking.Resource) (map[locking.Resource]locking.Holder,
		error)
}

// Memcached tells how the servers of stage 1 are. *memcached.Watch implements
// it.
type Memcached interface {
	// Servers returns what is known of each, in the configured order. It is
	// called concurrently and asks nobody.
	Servers() []memcached.Health
}

// User may sign in to the pages.
type User struct {
	Name         string // at most 200 bytes, without control characters
	Role         Role
	PasswordHash string // as password.Parse takes it
}

// Token lets a machine use the API.
type Token struct {
	Name string
	Role Role
	Hash string // SHA-256 of the token, in hexadecimal
}

// Certificate names the server's certificate, with its chain, and key: files
// in PEM, read again when they change.
type Certificate struct {
	CertFile, KeyFile string
}

// ScheduledFiring is the next firing of a job, by the replica's own cron table.
type ScheduledFiring struct {
	Job         string
	ScheduledAt time.Time
	Start       time.Time         // later than Due by the job's jitter; zero: at Due
	Resources   []locking.Request // the job's own name may be among them
}

// Options say what a Server serves, and to whom. Listen, Store and Replica are
// required.
type Options struct {
	// Listen is the address, as host:port. Beyond loopback it needs Users,
	// Tokens or a Proxy that names users.
	Listen string
	// Hosts are the names that it is asked for under, beside loopback's: lower
	// case, without port.
	Hosts       []string
	Certificate *Certificate // nil: plain HTTP
	// Users may sign in. Where there are none, no Tokens and no Proxy that
	// names users, everybody who reaches the address is an operator.
	Users  []User
	Tokens []Token
	Proxy  *Proxy // nil: none is trusted
	// CookieKeys are secrets of 32 bytes or more, the same for every replica.
	// The first signs, all are believed. Without any, keys come from the
	// users' hashes.
	CookieKeys [][]byte
	// Attempts counts failed sign-ins for all replicas; nil: each counts its
	// own.
	Attempts jobs.Attempts
	// Restarts of memcached are shown on the timeline; nil where there is none.
	Restarts jobs.Restarts

	Store     jobs.History
	StoreName string // for people, such as PostgreSQL; "" means "The store"
	// Memory knows what jobs keep for their next runs; nil where it is not shown.
	Memory jobs.Memory
	// Watch has what a run writes kept while it runs, since somebody looks at it.
	// Nil means that output is shown when the run has ended.
	Watch func(ctx context.Context, run uuid.UUID) error
	// Operations do what operators ask for; nil where the page only shows.
	Operations *jobs.Operations
	Advisory   Advisory  // nil where there is no stage 1
	Memcached  Memcached // nil where stage 1 is not in memcached

	Replica string // this replica's name
	// Session returns the id of this replica's session, which changes when a
	// session was lost; nil or a zero id where there is none.
	Session func() uuid.UUID
	Version string // of the binary

	// Upcoming returns the next firing after from of each job of this
	// replica's cron table, one a job, the soonest first, at most n of them.
	// It is called concurrently. Nil means that no firings are shown.
	Upcoming func(from time.Time, n int) []ScheduledFiring
	// Scheduled times returns the first scheduled times after from of one job of this replica's
	// cron table, at most n of them. It is called concurrently. Nil means that no
	// scheduled times are shown.
	ScheduledTimes func(job string, from time.Time, n int) []time.Time
	// LongestWait returns how long a firing of a job waits for a lock that is held,
	// or limit where that is shorter; false where it is not known. It is called
	// concurrently. Nil means that it is known of no job.
	LongestWait func(job string, limit time.Duration) (time.Duration, bool)
	// Explain says what became of a job at an instant, which it reads as
	// schedule.ParseTime does. It is called concurrently. Nil means that no more
	// is said than what the store knows.
	Explain func(ctx context.Context, job, at string) (jobs.Explanation, error)
	// Changes has open pages told at once of what changes in the cluster. Nil
	// means that they only ask every now and then.
	Changes Changes
	// Ready returns why this replica can't start runs, or nil. It is called
	// concurrently. A nil Ready is always ready.
	Ready func(ctx context.Context) error

	// Metrics answers scrapes; nil where nothing is counted.
	Metrics http.Handler
	// Trace returns the trace of a run, if it has one. It is called concurrently.
	// Nil means that nothing is traced.
	Trace func(run uuid.UUID) Trace

	// Refresh is how often an open page asks again where it was told of no change,
	// at least 5 s; 0 means DefaultRefresh.
	Refresh time.Duration
	Log     zerolog.Logger
}

// check reports every mistake at once.
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
	o.checkUsers(bad)
	o.checkTokens(bad)
	o.checkProxy(bad)
	for i, key := range o.CookieKeys {
		if len(key) < minCookieKey {
			bad("cookie key %d has %d bytes, expected at least %d", i+1, len(key), minCookieKey)
		}
	}
	return errors.Join(append(problems, o.checkAddress())...)
}

const minCookieKey = 32 // bytes

func (o *Options) checkUsers(bad func(format string, args ...any)) {
	seen := make(map[string]bool)
	for i, user := range o.Users {
		_, err := password.Parse(user.PasswordHash)
		switch {
		case !isUserName(user.Name):
			bad("user %d: name %q is empty, has more than 200 bytes or a control character", i+1,
				cut(user.Name, 200))
		case seen[user.Name]:
			bad("user %q is there twice", user.Name)
		case !user.Role.known():
			bad("user %q: role is %q, expected viewer or operator", user.Name, user.Role)
		case err != nil:
			bad("user %q: password hash: %w", user.Name, err)
		}
		seen[user.Name] = true
	}
}

func (o *Options) checkTokens(bad func(format string, args ...any)) {
	for i, token := range o.Tokens {
		sum, err := hex.DecodeString(token.Hash)
		switch {
		case !isUserName(token.Name):
			bad("token %d: name %q is empty, has more than 200 bytes or a control character", i+1,
				cut(token.Name, 200))
		case !token.Role.known() && token.Role != Scraper:
			bad("token %q: role is %q, expected viewer, operator or metrics", token.Name,
				token.Role)
		case err != nil || len(sum) != sha256.Size:
			bad("token %q: the hash is not the SHA-256 of a token in hexadecimal", token.Name)
		}
	}
}

func (o *Options) checkProxy(bad func(format string, args ...any)) {
	switch {
	case o.Proxy == nil:
	case len(o.Proxy.Networks) == 0:
		bad("the proxy's networks are needed")
	case o.Proxy.UserHeader != "" && !o.Proxy.Role.known():
		bad("the proxy's role is %q, expected viewer or operator", o.Proxy.Role)
	}
}

// isUserName allows what logs, HTTP and the audit can carry.
func isUserName(name string) bool {
	const longest = 200
	return name != "" && len(name) <= longest && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

func (o *Options) storeName() string { return cmp.Or(o.StoreName, "The store") }

// guarded reports whether anybody is told apart from strangers.
func (o *Options) guarded() bool { return len(o.Users) > 0 || len(o.Tokens) > 0 || o.Proxy.names() }

// checkAddress refuses what is plainly beyond loopback; a host name is judged
// by the address that Listen gets for it.
func (o *Options) checkAddress() error {
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
