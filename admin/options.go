package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// DefaultRefresh is how often the page asks again unless Options say otherwise.
const DefaultRefresh = 5 * time.Second

// ErrOptions is wrapped by every error about Options, but ExposedError.
var ErrOptions = errors.New("admin options")

// ExposedError says that the address can be reached from other machines while
// no users are configured.
type ExposedError struct {
	Address string
}

// Error names the address and what to do.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("admin page on %s could be read from other machines and has no users: "+
		"listen on 127.0.0.1 or [::1], or configure users", e.Address)
}

// Stage1 tells who holds resources by stage 1. *locking.Locker implements it.
type Stage1 interface {
	// Inspect returns the holders of those resources that are locked
	// exclusively, or an error when stage 1 could not be asked.
	Inspect(ctx context.Context, resources []locking.Resource) (map[locking.Resource]locking.Holder, error)
}

// Memcached tells how the servers of stage 1 are. *memcached.Watch implements
// it.
type Memcached interface {
	// Servers returns what is known of each, in the configured order. It is
	// called concurrently and asks nobody.
	Servers() []memcached.Health
}

// User may read everything that the server shows.
type User struct {
	Name         string // without a colon
	PasswordHash string // by bcrypt
}

// Due is the next firing of a job, by the replica's own cron table.
type Due struct {
	Job       string
	Due       time.Time
	Resources []locking.Request // the job's own name may be among them
}

// Options say what a Server serves, and to whom. Listen, Store and Replica are
// required.
type Options struct {
	// Listen is the address, as host:port. Beyond loopback it needs Users.
	Listen string
	// Users may sign in. None means that everybody may read who reaches the
	// address.
	Users []User

	Store     jobs.History
	Stage1    Stage1    // nil where there is no stage 1
	Memcached Memcached // nil where stage 1 is not in memcached

	Replica string // this replica's name
	// Session returns the id of this replica's session, which changes when a
	// session was lost; nil or a zero id where there is none.
	Session func() uuid.UUID
	Version string // of the binary

	// Upcoming returns the next firing after from of each job of this
	// replica's cron table, one a job, the soonest first, at most n of them.
	// It is called concurrently. Nil means that no firings are shown.
	Upcoming func(from time.Time, n int) []Due
	// Ready returns why this replica can't start runs, or nil. It is called
	// concurrently. A nil Ready is always ready.
	Ready func(ctx context.Context) error

	// Refresh is how often the page asks again, at least a second; 0 means
	// DefaultRefresh.
	Refresh time.Duration
	Log     zerolog.Logger
}

// check reports every mistake at once.
func (o *Options) check() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	if o.Store == nil {
		bad("a store is needed")
	}
	if o.Replica == "" {
		bad("the replica's name is needed")
	}
	if o.Refresh < 0 || o.Refresh > 0 && o.Refresh < time.Second {
		bad("refresh is %s, expected at least 1s", o.Refresh)
	}
	seen := make(map[string]bool)
	for i, user := range o.Users {
		switch _, err := bcrypt.Cost([]byte(user.PasswordHash)); {
		case user.Name == "" || strings.ContainsFunc(user.Name, badInUserName):
			bad("user %d: name %q is empty, or has a colon or a control character", i+1, user.Name)
		case seen[user.Name]:
			bad("user %q is there twice", user.Name)
		case err != nil: // the hash itself stays out of the error
			bad("user %q: the password hash is not a bcrypt hash", user.Name)
		}
		seen[user.Name] = true
	}
	return errors.Join(append(problems, o.checkAddress())...)
}

func badInUserName(r rune) bool { return r == ':' || r < ' ' || r == 0x7f }

// checkAddress refuses what is plainly beyond loopback; a host name is judged
// by the address that Listen gets for it.
func (o *Options) checkAddress() error {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("%w: listen is %q, expected host:port such as 127.0.0.1:8080", ErrOptions, o.Listen)
	}
	if len(o.Users) > 0 {
		return nil
	}
	ip := net.ParseIP(host)
	if host == "" || ip != nil && !ip.IsLoopback() {
		return &ExposedError{Address: o.Listen}
	}
	return nil
}
