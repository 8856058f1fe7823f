package configs

import (
	"time"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/retry"
)

// Defaults returns the configuration of an empty file, without the replica's name, which Load,
// Parse and Build generate.
func Defaults() Config {
	return Config{
		Database: Database{URL: NewSecret("sqlite://holdfast.db"), MaxConnections: 20,
			Schema:  "holdfast",
			Migrate: true},
		Locking: Locking{
			Lease: 30 * time.Second,
			Wait: Wait{
				Attempts: 5, Delay: 500 * time.Millisecond, MaxDelay: 5 * time.Second,
				Backoff: retry.Exponential, Jitter: 0.2, Reserve: locking.DefaultReserve,
			},
			WhenUnavailable: UsePostgres,
		},
		Session:          Session{Heartbeat: 5 * time.Second, Expires: 15 * time.Second},
		Clock:            Clock{MaxOffset: 10 * time.Second},
		History:          History{Keep: 720 * time.Hour},
		Workers:          100,
		ShutdownGrace:    30 * time.Second,
		DefaultSchema:    "public",
		Timezone:         "UTC",
		MisfireThreshold: 30 * time.Second,
		Status:           Status{FailingAfter: 3},
		Admin:            Admin{Listen: "127.0.0.1:8080", Prefix: "/", Refresh: 5 * time.Second},
		Log:              Log{Level: "info", Format: "auto"},
		Metrics:          Metrics{Names: 200},

		begun: byDefaults,
	}
}

// NewMemcached returns a memcached section with the defaults and these servers.
func NewMemcached(servers ...string) *Memcached {
	m := &Memcached{}
	m.start(nil)
	m.Servers = servers
	return m
}

// start sets the defaults of a database of jobs.
func (d *JobDatabase) start(*Config) { d.MaxConnections, d.Fence = 10, FenceTable }

// start sets the defaults of a memcached section.
func (m *Memcached) start(*Config) {
	*m = Memcached{Timeout: time.Second, WatchEvery: 5 * time.Second}
}

// start sets the defaults of a user: the role with the fewest permissions.
func (u *User) start(*Config) { u.Role = Viewer }

// start sets the defaults of a token.
func (t *Token) start(*Config) { t.Role = Viewer }

// start sets the defaults of an oidc section.
func (o *OIDC) start(*Config) {
	o.Scopes, o.GroupsClaim, o.Role = []string{"email"}, "groups", NoRole
}

// start sets the defaults of a group: the role with the fewest permissions.
func (g *OIDCGroup) start(*Config) { g.Role = Viewer }

// start sets the defaults of a trusted_proxy section.
func (p *TrustedProxy) start(*Config) { p.Role = Viewer }

// start sets the defaults of a job of c.
func (j *Job) start(c *Config) {
	*j = Job{
		Timezone:     c.Timezone,
		ClockChanges: ClockChanges{Gap: "run", Overlap: "first"},
		Retry: retry.Policy{Attempts: 1, Delay: 10 * time.Second,
			Backoff: retry.Constant},
		Wait: c.Locking.Wait,
		Misfire: Misfire{NoReplica: "run_once", NoWorker: "run_once", Paused: "skip",
			LockHeld: "skip", Limit: 100},
		Priority:         5,
		MisfireThreshold: c.MisfireThreshold,
		Overlap:          "skip",
	}
}
