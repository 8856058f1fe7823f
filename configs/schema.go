package configs

import (
	"net/netip"
	"time"
)

// Config is a replica's configuration and its cron table. Load and Parse
// return one that is complete and checked; Defaults is where it starts. It is
// not changed afterwards and may be read concurrently: CheckRead tells.
type Config struct {
	Database Database `yaml:"database"`
	Replica  Replica  `yaml:"replica"`
	Locking  Locking  `yaml:"locking"`
	Session  Session  `yaml:"session"`
	Clock    Clock    `yaml:"clock"`
	History  History  `yaml:"history"`
	// Workers is how many runs the replica executes at the same time.
	Workers int `yaml:"workers" min:"1" max:"10000"`
	// ShutdownGrace is how long runs may go on after the first signal.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" min:"0s" max:"24h"`
	// DefaultSchema is the schema of tables that are named without one, in
	// PostgreSQL's normal form.
	DefaultSchema string `yaml:"default_schema"`
	// Timezone is the zone of jobs that name none, as IANA has it.
	Timezone string `yaml:"timezone"`
	// MisfireThreshold is how late a firing may start; jobs may differ.
	MisfireThreshold time.Duration `yaml:"misfire_threshold" min:"1s" max:"168h"`
	// CatchUp paces what an outage has left.
	CatchUp   CatchUp    `yaml:"catch_up"`
	Admin     Admin      `yaml:"admin"`
	Log       Log        `yaml:"log"`
	Metrics   Metrics    `yaml:"metrics"`
	Tracing   *Tracing   `yaml:"tracing"` // nil: nothing is traced
	Calendars []Calendar `yaml:"calendars"`
	Groups    []Group    `yaml:"groups"`
	Webhooks  []Webhook  `yaml:"webhooks"`
	Jobs      []Job      `yaml:"jobs"` // last: jobs start from the rest

	read bool // by Parse
}

// Database is the store: history, sessions, claims.
type Database struct {
	// URL is sqlite:// and a path, taken as it is and so relative to the
	// working directory, or a postgres:// or postgresql:// URL.
	URL Secret `yaml:"url"`
	// MaxConnections bounds the pool to PostgreSQL.
	MaxConnections int `yaml:"max_connections" min:"4" max:"1000"`
	// Migrate brings the schema up to date at start.
	Migrate bool `yaml:"migrate"`
}

// Replica is this process among others.
type Replica struct {
	// Name is shown to people and differs between living replicas. If the
	// file has none it is the host's name and a random suffix. A replica that
	// the file names takes over from its former life as soon as it starts.
	Name string `yaml:"name"`
	// Drawn says that the file has no name.
	Drawn bool `yaml:"-"`
}

// Locking is stage 1: the locks that firings are tried on first.
type Locking struct {
	Memcached *Memcached `yaml:"memcached"` // nil: in memory, within this process
	// Lease is the lifetime of a lock that nobody renews, in whole seconds.
	Lease time.Duration `yaml:"lease" min:"10s" max:"24h"`
	// Wait is how long firings try for held resources, unless their job differs.
	Wait Wait `yaml:"wait" delay:"10ms"`
	// WhenUnavailable says what firings do while memcached does not answer:
	// go on by the database's grants, or be skipped.
	WhenUnavailable string `yaml:"when_unavailable" oneof:"postgres, skip"`
}

// The values of Locking.WhenUnavailable.
const (
	UsePostgres = "postgres"
	SkipFirings = "skip"
)

// Memcached is a set of servers. Their order decides which server holds which
// lock, so it must be the same for all replicas.
type Memcached struct {
	Servers []string      `yaml:"servers"` // host:port, or the path of a socket
	Timeout time.Duration `yaml:"timeout" min:"10ms" max:"3s"`
	MaxIdle int           `yaml:"max_idle" min:"1" max:"10000"` // connections kept open a server
	// Strict refuses to start while a server answers whose settings are
	// unsafe for locks.
	Strict bool `yaml:"strict"`
	// WatchEvery is how often the servers are asked how they are.
	WatchEvery time.Duration `yaml:"watch_every" min:"100ms" max:"1m"`
	// Username and Password are for servers started with -Y; both or neither.
	Username string `yaml:"username"`
	Password Secret `yaml:"password"`
	TLS      *TLS   `yaml:"tls"` // nil: none; for servers started with -Z
}

// TLS is how a client of memcached proves servers and itself. Certificates and
// keys are in PEM.
type TLS struct {
	// CA are the authorities that may have signed a server's certificate;
	// those of the system if there are none.
	CA Secret `yaml:"ca"`
	// Cert and Key are this client's own; both or neither.
	Cert Secret `yaml:"cert"`
	Key  Secret `yaml:"key"`
	// ServerName is the name that servers prove, if it is not the host that
	// they are configured by.
	ServerName string `yaml:"server_name"`
}

// Session is the replica's life in the store. A replica counts as dead when
// it has not renewed its session for Expires.
type Session struct {
	Heartbeat time.Duration `yaml:"heartbeat" min:"100ms" max:"1m"`
	Expires   time.Duration `yaml:"expires" min:"300ms" max:"1h"` // at least three heartbeats
}

// Clock is about this machine's wall clock.
type Clock struct {
	// MaxOffset is how far it may be off the database's for runs to be started
	// here.
	MaxOffset time.Duration `yaml:"max_offset" min:"1s" max:"24h"`
}

// History is what the store keeps of what was.
type History struct {
	// Keep is how long runs that have ended, with what belongs to them, and the
	// audit log are kept.
	Keep time.Duration `yaml:"keep" min:"1h" max:"87600h"`
}

// Admin is the page and its API.
type Admin struct {
	// Listen is host:port; "" serves no page. Beyond loopback it needs users,
	// tokens or a trusted proxy's user header.
	Listen string `yaml:"listen"`
	// Hosts are the names under which the page is asked for, beside loopback's
	// and addresses. Lower case, without port.
	Hosts        []string      `yaml:"hosts"`
	TLS          *ServerTLS    `yaml:"tls"` // nil: plain HTTP
	Users        []User        `yaml:"users"`
	Tokens       []Token       `yaml:"tokens"`
	TrustedProxy *TrustedProxy `yaml:"trusted_proxy"` // nil: none
	// CookieKeys sign who has signed in. The first signs, all are believed.
	CookieKeys []CookieKey `yaml:"cookie_keys"`
	// of an open page that is told of no change
	Refresh time.Duration `yaml:"refresh" min:"5s" max:"1h"`
}

// The values of the keys role: a viewer reads, an operator acts too. A token may
// be for the metrics alone.
const (
	Viewer      = "viewer"
	Operator    = "operator"
	MetricsOnly = "metrics"
)

// User may sign in to the page.
type User struct {
	Name         string `yaml:"name"`
	Role         string `yaml:"role" oneof:"viewer, operator"`
	PasswordHash Secret `yaml:"password_hash"` // argon2id or bcrypt
}

// Token lets a machine use the API, or only read the metrics.
type Token struct {
	Name      string `yaml:"name"`
	Role      string `yaml:"role" oneof:"viewer, operator, metrics"`
	TokenHash Secret `yaml:"token_hash"` // SHA-256 of the token, in hexadecimal
}

// TrustedProxy is what stands in front of the page: a load balancer that names
// its clients, and perhaps one that has signed them in.
type TrustedProxy struct {
	// Networks are those that it asks from. Nothing else is believed.
	Networks []netip.Prefix `yaml:"networks"`
	// UserHeader names who it has signed in; "" if it signs nobody in.
	UserHeader string `yaml:"user_header"`
	// Role is what those have who are not among Operators.
	Role      string   `yaml:"role" oneof:"viewer, operator"`
	Operators []string `yaml:"operators"`
}

// CookieKey is one secret of at least 32 bytes.
type CookieKey struct {
	Key Secret `yaml:"key"`
}

// ServerTLS names the page's certificate, with its chain, and its key, both in
// PEM. They are absolute or relative to the configuration in the file, and
// joined to its folder once loaded.
type ServerTLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// CatchUp says how many of the workers may be at work on late runs at the same
// time; 0 is a quarter of them, at least one.
type CatchUp struct {
	Workers int `yaml:"workers" min:"0" max:"10000"`
}

// Group is jobs that share limits of how many of their runs go on at the same
// time; 0 is no limit.
type Group struct {
	Name       string `yaml:"name"` // unique
	PerCluster int    `yaml:"per_cluster" min:"0" max:"1000"`
	PerReplica int    `yaml:"per_replica" min:"0" max:"1000"`
}

// Group returns the group of that name, which without a definition has no limits.
func (c *Config) Group(name string) Group {
	for _, g := range c.Groups {
		if g.Name == name {
			return g
		}
	}
	return Group{Name: name}
}

// Log is the replica's own log, not that of its runs.
type Log struct {
	Level  string `yaml:"level" oneof:"trace, debug, info, warn, error"`
	Format string `yaml:"format" oneof:"auto, json, console"` // auto: console on a terminal
}
