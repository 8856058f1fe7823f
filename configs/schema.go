package configs

import (
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

// Config is a replica's configuration and its cron table. Load and Parse
// return one that is complete and checked; Defaults is where it starts. It is
// not changed afterwards and may be read concurrently.
type Config struct {
	Database Database `yaml:"database"`
	Replica  Replica  `yaml:"replica"`
	Locking  Locking  `yaml:"locking"`
	Session  Session  `yaml:"session"`
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
	Admin            Admin         `yaml:"admin"`
	Log              Log           `yaml:"log"`
	Jobs             []Job         `yaml:"jobs"` // last: jobs start from the rest
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
	Wait retry.Policy `yaml:"wait" delay:"10ms"`
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
}

// Session is the replica's life in the store. A replica counts as dead when
// it has not renewed its session for Expires.
type Session struct {
	Heartbeat time.Duration `yaml:"heartbeat" min:"100ms" max:"1m"`
	Expires   time.Duration `yaml:"expires" min:"300ms" max:"1h"` // at least three heartbeats
}

// Admin is the page and its API.
type Admin struct {
	// Listen is host:port; "" serves no page. Beyond loopback it needs users.
	Listen  string        `yaml:"listen"`
	Users   []User        `yaml:"users"`
	Refresh time.Duration `yaml:"refresh" min:"1s" max:"1h"` // of an open page
}

// User may sign in to the page.
type User struct {
	Name         string `yaml:"name"`
	PasswordHash Secret `yaml:"password_hash"` // bcrypt
}

// Log is the replica's own log, not that of its runs.
type Log struct {
	Level  string `yaml:"level" oneof:"trace, debug, info, warn, error"`
	Format string `yaml:"format" oneof:"auto, json, console"` // auto: console on a terminal
}
