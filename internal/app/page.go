package app

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// openPage makes the page, if it is configured, and listens on its address.
func (r *Replica) openPage(_ context.Context, config *configs.Config) (err error) {
	if config.Admin.Listen == "" {
		return nil
	}
	if r.page, err = admin.New(r.pageOptions(config)); err != nil {
		return err
	}
	return r.page.Listen()
}

func (r *Replica) pageOptions(config *configs.Config) admin.Options {
	options := AccessOptions(config.Admin)
	options.Replica, options.Version = config.Replica.Name, Version()
	options.Session = r.scheduler.Session
	options.StoreName, options.Refresh, options.Log = storeName(config), config.Admin.Refresh, r.log
	options.Rules = statusRules(config)

	options.Store, options.Progress, options.Changes = r.timed, r.timed, r.timed
	options.Watch = r.timed.Watch
	options.LoginAttempts, options.SignOuts = r.store.LoginAttempts, r.store.SignOuts
	options.Events = r.store.Events
	options.Restarts = r.store.Restarts
	options.Operations, options.Authorizer = r.operations, r.authorizer
	if r.load != nil {
		options.Reload = r.reloadBy
	}

	options.Ready, options.LongestWait = r.scheduler.Ready, r.scheduler.LongestWait
	options.Upcoming, options.ScheduledTimes = r.upcoming, r.scheduler.ScheduledTimes
	options.Table = r.scheduler.Table()
	options.Explain = explain.New(explain.Options{Store: r.timed, Table: options.Table,
		Pauses: r.timed.Pauses, Keep: config.History.Keep}).Explain

	options.Metrics, options.Trace = r.metrics.Handler(), r.traceOf
	if r.locker != nil { // a nil *locking.Locker would not be a nil interface
		options.Advisory = r.locker
	}
	if r.locks != nil && r.locks.watch != nil {
		options.Memcached = r.locks.watch
	}
	options.Databases = r.databasesOfPage
	return options
}

// AccessOptions returns the options for the address of the page and for access to it.
func AccessOptions(config configs.Admin) admin.Options {
	options := admin.Options{Listen: config.Listen, Prefix: config.Prefix, Hosts: config.Hosts}
	for _, u := range config.Users {
		options.Users = append(options.Users,
			admin.User{Name: u.Name, Role: admin.Role(u.Role),
				PasswordHash: u.PasswordHash.Reveal()})
	}
	for _, t := range config.Tokens {
		options.Tokens = append(options.Tokens,
			admin.Token{Name: t.Name, Role: admin.Role(t.Role), Hash: t.TokenHash.Reveal(),
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
		options.Proxy = &admin.Proxy{Networks: p.Networks, UserHeader: p.UserHeader,
			Role: admin.Role(p.Role), Operators: p.Operators,
			SecretHeader: p.SecretHeader, Secret: p.Secret.Reveal(),
			ClientCAs: p.ClientCAs(), ClientNames: p.ClientNames}
	}
	if o := config.OIDC; o != nil {
		options.OIDC = &admin.OIDC{Issuer: o.Issuer, ClientID: o.ClientID,
			ClientSecret: o.ClientSecret.Reveal(), RedirectURL: o.RedirectURL, Scopes: o.Scopes,
			GroupsClaim: o.GroupsClaim, Domains: o.Domains}
		if o.Role != configs.NoRole {
			options.OIDC.Role = admin.Role(o.Role)
		}
		for _, g := range o.Groups {
			options.OIDC.Groups = append(options.OIDC.Groups,
				admin.OIDCGroup{Name: g.Name, Role: admin.Role(g.Role)})
		}
	}
	if config.TLS != nil {
		options.Certificate = &admin.Certificate{CertFile: config.TLS.CertFile,
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

// upcoming returns the next n scheduled firings after from, for the page.
func (r *Replica) upcoming(from time.Time, n int) []admin.ScheduledFiring {
	firings := r.scheduler.Upcoming(from, n)
	shown := make([]admin.ScheduledFiring, len(firings))
	for i, f := range firings {
		shown[i] = admin.ScheduledFiring(f)
	}
	return shown
}
