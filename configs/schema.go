package configs

import (
	"crypto/x509"
	"iter"
	"net/netip"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Config is a replica's configuration and its cron table. Load, Parse and Build return one that is
// complete and checked, and safe for concurrent reads. After a change of a field, call Build to
// complete and check it again.
type Config struct {
	Database Database `yaml:"database"`
	// Databases are further databases in which jobs have tables, by name.
	Databases map[string]JobDatabase `yaml:"databases"`
	Replica   Replica                `yaml:"replica"`
	Locking   Locking                `yaml:"locking"`
	Session   Session                `yaml:"session"`
	Clock     Clock                  `yaml:"clock"`
	History   History                `yaml:"history"`
	Audit     Audit                  `yaml:"audit"`
	// Workers is the number of concurrent runs of the replica.
	Workers int `yaml:"workers" min:"1" max:"10000"`
	// ShutdownGrace is how long active runs may continue after the first signal.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" min:"0s" max:"24h"`
	// DefaultSchema is the schema of tables without one, as PostgreSQL stores its name: in lower
	// case, unless it is in double quotes in the file.
	DefaultSchema string `yaml:"default_schema"`
	// Timezone is the default zone of jobs, by its IANA name.
	Timezone string `yaml:"timezone"`
	// MisfireThreshold is how late a firing may start. Jobs can override it.
	MisfireThreshold time.Duration `yaml:"misfire_threshold" min:"1s" max:"168h"`
	// CatchUp limits late runs and runs of backfills.
	CatchUp CatchUp `yaml:"catch_up"`
	// Handlers limits what the built-in handlers may do.
	Handlers BuiltinHandlers `yaml:"handlers"`
	// AddedJobs limits jobs that are added at run time.
	AddedJobs AddedJobs  `yaml:"added_jobs"`
	Status    Status     `yaml:"status"`
	Admin     Admin      `yaml:"admin"`
	Log       Log        `yaml:"log"`
	Metrics   Metrics    `yaml:"metrics"`
	Tracing   *Tracing   `yaml:"tracing"` // nil: no traces
	Calendars []Calendar `yaml:"calendars"`
	Groups    []Group    `yaml:"groups"`
	Webhooks  []Webhook  `yaml:"webhooks"`
	Jobs      []Job      `yaml:"jobs"` // last, because jobs inherit from the other sections

	read   bool // as Parse or Build returned it
	begun  beginning
	folder string             // base of relative paths
	others iter.Seq[OtherJob] // see WithoutJobs; nil: Jobs
}

// Database is the store: history, sessions, claims.
type Database struct {
	// URL is a postgres:// or postgresql:// URL, or sqlite:// and the path of a file. A relative
	// path begins at the working directory.
	URL Secret `yaml:"url"`
	// JobsURL is for the transactions of jobs: the same PostgreSQL database, with a role that has
	// fewer permissions. Empty: URL.
	JobsURL Secret `yaml:"jobs_url"`
	// MaxConnections bounds the pool of PostgreSQL connections.
	MaxConnections int `yaml:"max_connections" min:"5" max:"1000"`
	// Schema is the PostgreSQL schema of Holdfast's tables. Clusters with different schemas can
	// share a database.
	Schema string `yaml:"schema"`
	// Migrate updates the schema at start.
	Migrate bool `yaml:"migrate"`
}

// JobDatabase is a database in which jobs have tables.
type JobDatabase struct {
	// URL is a postgres:// or postgresql:// URL.
	URL Secret `yaml:"url"`
	// MaxConnections bounds the connections of this replica.
	MaxConnections int `yaml:"max_connections" min:"1" max:"1000"`
	// Fence is how the database refuses writes of superseded runs.
	Fence string `yaml:"fence" oneof:"table, none"`
}

// The values of JobDatabase.Fence.
const (
	FenceTable = "table" // by the tables of package fence
	NoFence    = "none"  // not at all
)

// Replica identifies this process.
type Replica struct {
	// Name is shown to people and must differ between live replicas. The default is the host's name
	// and a random suffix. A replica with a configured name ends the previous session of that name
	// at start.
	Name string `yaml:"name"`
	// Drawn reports that no name is configured, so that Load, Parse or Build generated one.
	Drawn bool `yaml:"-"`
}

// Locking configures the advisory locks, which firings take first.
type Locking struct {
	// Memcached is nil if there is no memcached. Then a replica with SQLite has its advisory locks
	// in memory, and a replica with PostgreSQL has none.
	Memcached *Memcached `yaml:"memcached"`
	// Lease is the lifetime of an advisory lock that is not renewed, in whole seconds.
	Lease time.Duration `yaml:"lease" min:"10s" max:"24h"`
	// Wait is the default wait policy for held resources.
	Wait Wait `yaml:"wait" delay:"10ms"`
	// WhenUnavailable is what firings do while memcached does not answer: rely on the database
	// alone, or skip.
	WhenUnavailable string `yaml:"when_unavailable" oneof:"postgres, skip"`
}

// The values of Locking.WhenUnavailable.
const (
	UsePostgres = "postgres"
	SkipFirings = "skip"
)

// Memcached is a list of servers. Their order decides which server holds a lock, so it must be the
// same on all replicas.
type Memcached struct {
	Servers []string      `yaml:"servers"` // host:port, or the path of a socket
	Timeout time.Duration `yaml:"timeout" min:"10ms" max:"3s"`
	// Strict refuses to start while a server has unsafe settings.
	Strict bool `yaml:"strict"`
	// WatchEvery is the interval of health checks of the servers.
	WatchEvery time.Duration `yaml:"watch_every" min:"100ms" max:"1m"`
	// Username and Password are for servers with -Y; both or neither.
	Username string `yaml:"username"`
	Password Secret `yaml:"password"`
	TLS      *TLS   `yaml:"tls"` // nil: no TLS; for servers with -Z
}

// TLS is the TLS configuration of the memcached client. Certificates and keys are in PEM.
type TLS struct {
	// CA are the authorities of the servers' certificates. The default is the system's.
	CA Secret `yaml:"ca"`
	// Cert and Key are the client's certificate; both or neither.
	Cert Secret `yaml:"cert"`
	Key  Secret `yaml:"key"`
	// ServerName is the name in the servers' certificates, if it differs from the configured host.
	ServerName string `yaml:"server_name"`
}

// Session is the replica's liveness record in the store. A replica that has not renewed its session
// for Expires is lost.
type Session struct {
	Heartbeat time.Duration `yaml:"heartbeat" min:"100ms" max:"1m"`
	Expires   time.Duration `yaml:"expires" min:"300ms" max:"1h"` // at least three heartbeats
}

// Clock limits the offset of the local clock.
type Clock struct {
	// MaxOffset is the maximum offset from the database's clock at which this replica starts runs.
	MaxOffset time.Duration `yaml:"max_offset" min:"1s" max:"24h"`
}

// History is the retention in the store.
type History struct {
	// Keep is how long ended runs, with their details, and the audit log are retained.
	Keep time.Duration `yaml:"keep" min:"1h" max:"87600h"`
	// KeepTriggered is how long ended runs of triggers are retained, at most Keep; 0: Keep. It does
	// not apply to runs of backfills.
	KeepTriggered time.Duration `yaml:"keep_triggered" max:"87600h"`
}

// Audit is the audit log.
type Audit struct {
	// Chain makes the replica seal the entries: it links them by hashes.
	Chain bool `yaml:"chain"`
}

// Status has thresholds for the status of the cluster.
type Status struct {
	// FailingAfter is the number of failures in a row after which a job is failing.
	FailingAfter int `yaml:"failing_after" min:"1" max:"20"`
}

// Admin is the page and its API.
type Admin struct {
	// Listen is host:port; "": no page. Beyond loopback it requires users, tokens, OIDC or a
	// trusted proxy's user header.
	Listen string `yaml:"listen"`
	// Prefix is the path under which browsers reach the page, such as /holdfast/. A proxy in front
	// of the page may remove it from requests or keep it.
	Prefix string `yaml:"prefix"`
	// Hosts are the host names of the page besides loopback names, in lower case, without a port.
	// If the page requires a sign-in, it also answers to IP addresses.
	Hosts        []string      `yaml:"hosts"`
	TLS          *ServerTLS    `yaml:"tls"`   // nil: plain HTTP
	Roles        []Role        `yaml:"roles"` // beside the predefined ones
	Users        []User        `yaml:"users"`
	Tokens       []Token       `yaml:"tokens"`
	TrustedProxy *TrustedProxy `yaml:"trusted_proxy"` // nil: none
	OIDC         *OIDC         `yaml:"oidc"`          // nil: none
	// CookieKeys sign the cookies of sign-ins. The first one signs, all verify.
	CookieKeys []CookieKey `yaml:"cookie_keys"`
	// refresh interval of open pages that get no events
	Refresh time.Duration `yaml:"refresh" min:"5s" max:"1h"`
}

// The predefined roles.
const (
	Viewer        = permission.Viewer
	Operator      = permission.Operator
	TriggerRole   = permission.TriggerRole
	MetricsReader = permission.MetricsReader // for tokens
)

// Role is permissions on groups, jobs and resources by pattern; without patterns, on everything. In
// a pattern, * stands for any text. In a file, an empty list of patterns is a mistake.
type Role struct {
	Name        string   `yaml:"name"`
	Permissions []string `yaml:"permissions"`
	Groups      []string `yaml:"groups" empty:"no"` // with their jobs
	Jobs        []string `yaml:"jobs" empty:"no"`
	Resources   []string `yaml:"resources" empty:"no"`
	Include     []string `yaml:"include"` // other roles
}

// User may sign in to the page.
type User struct {
	Name         string `yaml:"name"`
	Role         string `yaml:"role"`
	PasswordHash Secret `yaml:"password_hash"` // argon2id or bcrypt
}

// Token gives a client access to the API, or only to the metrics.
type Token struct {
	Name      string `yaml:"name"`
	Role      string `yaml:"role"`
	TokenHash Secret `yaml:"token_hash"` // SHA-256 of the token, in hexadecimal
	// Expires is when the token ends; zero: never.
	Expires time.Time `yaml:"expires"`
	// Permissions, Groups, Jobs and Resources limit the token to a part of its role, as in Role. In
	// a file, an empty list is a mistake.
	Permissions []string `yaml:"permissions" empty:"no"` // none: all of the role
	Groups      []string `yaml:"groups" empty:"no"`
	Jobs        []string `yaml:"jobs" empty:"no"`
	Resources   []string `yaml:"resources" empty:"no"`
}

// TrustedProxy is a load balancer in front of the page that names the client, and possibly the
// user.
type TrustedProxy struct {
	// Networks are the addresses of the proxy. X-Forwarded-For, X-Forwarded-Proto and X-Request-Id
	// from other addresses are ignored, and requests from other addresses with UserHeader are
	// refused.
	Networks []netip.Prefix `yaml:"networks"`
	// UserHeader is the header that names the signed-in user; "": none.
	UserHeader string `yaml:"user_header"`
	// Role is the role of users who are not in Operators.
	Role      string   `yaml:"role"`
	Operators []string `yaml:"operators"`
	// SecretHeader is the header in which the proxy sends Secret; "": none. Senders without the
	// secret are treated like senders outside Networks.
	SecretHeader string `yaml:"secret_header"`
	Secret       Secret `yaml:"secret"` // at least 32 bytes
	// ClientCA has the certificates, in PEM, of the authorities that sign the client certificates
	// of the proxy. Senders without such a certificate are treated like senders outside Networks.
	// Empty: the proxy needs no certificate.
	ClientCA Secret `yaml:"client_ca"`
	// ClientNames are common names and DNS names. A certificate of the proxy must have one of them.
	// Empty: it may have any name.
	ClientNames []string `yaml:"client_names"`
}

// ClientCAs returns the authorities in ClientCA, or nil if ClientCA is empty.
func (p *TrustedProxy) ClientCAs() *x509.CertPool {
	if p.ClientCA.IsZero() {
		return nil
	}
	pool := x509.NewCertPool() // without a certificate, it accepts no proxy
	pool.AppendCertsFromPEM([]byte(p.ClientCA.Reveal()))
	return pool
}

// OIDC is an OpenID Connect provider that signs people in to the page. A person is named by the
// verified e-mail address.
type OIDC struct {
	// Issuer is the URL of the provider, exactly as it names itself.
	Issuer       string `yaml:"issuer"`
	ClientID     string `yaml:"client_id"`
	ClientSecret Secret `yaml:"client_secret"`
	// RedirectURL is the address of the page with Prefix and the path login/oidc/callback.
	RedirectURL string   `yaml:"redirect_url"`
	Scopes      []string `yaml:"scopes"`       // beside openid
	GroupsClaim string   `yaml:"groups_claim"` // the claim with the groups of a person
	Domains     []string `yaml:"domains"`      // of e-mail addresses; empty: all
	// Groups give roles. The first one that the person is in decides.
	Groups []OIDCGroup `yaml:"groups"`
	// Role is the role of people in none of Groups. With NoRole they are refused.
	Role string `yaml:"role"`
}

// NoRole is the value of OIDC.Role that refuses people who are in none of the groups.
const NoRole = "none"

// OIDCGroup gives the members of a group a role.
type OIDCGroup struct {
	Name string `yaml:"name"`
	Role string `yaml:"role"`
}

// CookieKey is a secret of at least 32 bytes.
type CookieKey struct {
	Key Secret `yaml:"key"`
}

// ServerTLS names the PEM files of the page's certificate chain and key. Relative paths are
// relative to the configuration's folder.
type ServerTLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// CatchUp is the maximum number of workers for late runs and runs of backfills together; 0 is a
// quarter of all workers, at least one.
type CatchUp struct {
	Workers int `yaml:"workers" min:"0" max:"10000"`
}

// BuiltinHandlers limits what jobs with built-in handlers may do.
type BuiltinHandlers struct {
	// Disabled are built-in handlers that no job may use: sql, http or command.
	Disabled []string `yaml:"disabled"`
	HTTP     Targets  `yaml:"http"` // of http jobs, and of webhooks
}

// Targets are hosts that may get requests. Each entry is a host such as api.example.com or
// *.example.com, an address, or a network such as 10.1.0.0/16.
//
// Link-local addresses and metadata services are refused, unless Allow has the address itself. For
// link-local addresses, Allow can also have 169.254.0.0/16, fe80::/10, or a part of one of them
// that contains the address. So 169.254.0.0/16 also allows the metadata service 169.254.169.254. A
// wider network does not allow them.
type Targets struct {
	Allow []string `yaml:"allow"` // empty: all hosts
	Deny  []string `yaml:"deny"`  // refused even if Allow has them
}

// AddedJobs limits jobs that operators add at run time.
type AddedJobs struct {
	// AllowedEnv are the variables that the params of these jobs may use. The other keys of these
	// jobs cannot use variables.
	AllowedEnv []string `yaml:"allowed_env"`
}

// Group limits the concurrent runs of its jobs together; 0 is no limit.
type Group struct {
	Name       string `yaml:"name"` // unique
	PerCluster int    `yaml:"per_cluster" min:"0" max:"1000"`
	PerReplica int    `yaml:"per_replica" min:"0" max:"1000"`
}

// Group returns the group with the name. An undefined group has no limits.
func (c *Config) Group(name string) Group {
	for _, g := range c.Groups {
		if g.Name == name {
			return g
		}
	}
	return Group{Name: name}
}

// Log configures the log of the replica, not the output of runs.
type Log struct {
	Level  string `yaml:"level" oneof:"trace, debug, info, warn, error"`
	Format string `yaml:"format" oneof:"auto, json, console"` // auto: console on a terminal
}
