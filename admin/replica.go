package admin

import (
	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// Page makes the page of a replica, for holdfast.WithPage and holdfast.WithAdmin.
func Page(parts page.Parts) (page.Server, error) {
	server, err := New(optionsOf(parts))
	if err != nil {
		return nil, err
	}
	return ownPage{server}, nil
}

// ownPage is the page of a replica with an address of its own. It implements page.Server.
type ownPage struct{ *Server }

// CheckAccess implements page.Guarded.
func (p ownPage) CheckAccess(a page.Access) error {
	options := optionsFor(a)
	return p.Server.CheckAccess(options.Access())
}

// SetAccess implements page.Guarded.
func (p ownPage) SetAccess(a page.Access) error {
	options := optionsFor(a)
	return p.Server.SetAccess(options.Access())
}

// mountedPage is the page of a replica in a server of the program. It implements page.Mounted.
type mountedPage struct{ *Mount }

// Begin implements page.Mounted.
func (p mountedPage) Begin(parts page.Parts) error { return p.Mount.Begin(optionsOf(parts)) }

// CheckAccess implements page.Guarded.
func (p mountedPage) CheckAccess(a page.Access) error {
	return p.with(a, (*Server).CheckAccess)
}

// SetAccess implements page.Guarded.
func (p mountedPage) SetAccess(a page.Access) error { return p.with(a, (*Server).SetAccess) }

// with calls f with the server of the page, if there is one, and with the access to it.
func (p mountedPage) with(a page.Access, f func(*Server, Access) error) error {
	server := p.Server()
	if server == nil {
		return nil
	}
	options := p.Options(optionsFor(a))
	return f(server, options.Access())
}

// optionsOf returns the options of the page of a replica.
func optionsOf(p page.Parts) Options {
	o := optionsFor(p.Access)
	o.Replica, o.Session, o.Version, o.Ready = p.Replica, p.Session, p.Version, p.Ready
	o.Refresh, o.Log = p.Refresh, p.Log

	o.StoreName, o.Rules, o.Operations = p.Status.StoreName, p.Status.Rules, p.Status.Operations
	o.Memcached, o.Databases = p.Status.Memcached, p.Status.Databases

	o.Store, o.Progress, o.Changes, o.Watch = p.Store, p.Store, p.Store, p.Store.Watch
	o.LoginAttempts, o.SignOuts, o.Events = p.LoginAttempts, p.SignOuts, p.Events
	o.Restarts, o.Advisory, o.Reload = p.Restarts, p.Advisory, p.Reload

	o.Heartbeats = p.Heartbeats
	o.Upcoming, o.ScheduledTimes, o.LongestWait = p.Upcoming, p.ScheduledTimes, p.LongestWait
	o.WaitEnd, o.Table, o.Explain = p.WaitEnd, p.Table, p.Explain
	o.Metrics, o.Trace = p.Metrics, p.Trace
	return o
}

// optionsFor returns the options for the address of the page and for access to it.
func optionsFor(given page.Access) Options {
	config := given.Config
	options := Options{Listen: config.Listen, Prefix: config.Prefix, Hosts: config.Hosts,
		Authorizer: given.Authorizer}
	for _, u := range config.Users {
		options.Users = append(options.Users,
			User{Name: u.Name, Role: Role(u.Role),
				PasswordHash: u.PasswordHash.Reveal()})
	}
	for _, t := range config.Tokens {
		options.Tokens = append(options.Tokens,
			Token{Name: t.Name, Role: Role(t.Role), Hash: t.TokenHash.Reveal(),
				Expires: t.Expires, Scope: scopeOf(t)})
	}
	for _, role := range config.Roles {
		options.Roles = append(options.Roles, permission.Role{Name: role.Name,
			Include: role.Include, Grant: grantOf(role.Permissions, role.Groups, role.Jobs,
				role.Resources)})
	}
	for _, k := range config.CookieKeys {
		options.CookieKeys = append(options.CookieKeys, []byte(k.Key.Reveal()))
	}
	if p := config.TrustedProxy; p != nil {
		options.Proxy = &Proxy{Networks: p.Networks, UserHeader: p.UserHeader,
			Role: Role(p.Role), Operators: p.Operators,
			SecretHeader: p.SecretHeader, Secret: p.Secret.Reveal(),
			ClientCAs: p.ClientCAs(), ClientNames: p.ClientNames}
	}
	if o := config.OIDC; o != nil {
		options.OIDC = &OIDC{Issuer: o.Issuer, ClientID: o.ClientID,
			ClientSecret: o.ClientSecret.Reveal(), RedirectURL: o.RedirectURL, Scopes: o.Scopes,
			GroupsClaim: o.GroupsClaim, Domains: o.Domains}
		if o.Role != configs.NoRole {
			options.OIDC.Role = Role(o.Role)
		}
		for _, g := range o.Groups {
			options.OIDC.Groups = append(options.OIDC.Groups,
				OIDCGroup{Name: g.Name, Role: Role(g.Role)})
		}
	}
	if config.TLS != nil {
		options.Certificate = &Certificate{CertFile: config.TLS.CertFile,
			KeyFile: config.TLS.KeyFile}
	}
	return options
}

func grantOf(permissions, groups, jobs, resources []string) permission.Grant {
	g := permission.Grant{Groups: groups, Jobs: jobs, Resources: resources}
	for _, p := range permissions {
		g.Permissions = append(g.Permissions, permission.Permission(p))
	}
	return g
}

// scopeOf returns the part of its role to which a token is limited, or nil.
func scopeOf(t configs.Token) *permission.Grant {
	if len(t.Permissions)+len(t.Groups)+len(t.Jobs)+len(t.Resources) == 0 {
		return nil
	}
	g := grantOf(t.Permissions, t.Groups, t.Jobs, t.Resources)
	return &g
}
