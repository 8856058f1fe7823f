package app

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
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

	options.Store, options.Memory, options.Changes = r.timed, r.timed, r.timed
	options.Watch = r.timed.Watch
	options.Attempts, options.Restarts = r.store.Attempts, r.store.Restarts
	options.Operations = r.operations

	options.Ready, options.LongestWait = r.scheduler.Ready, r.scheduler.LongestWait
	options.Upcoming, options.ScheduledTimes = r.upcoming, r.scheduler.ScheduledTimes
	explainer := r.scheduler.Explainer(r.timed, config.History.Keep)
	explainer.Pauses = r.timed.Pauses
	options.Explain = explainer.Explain

	options.Metrics, options.Trace = r.metrics.Handler(), r.traceOf
	if r.locker != nil { // a nil *locking.Locker would not be a nil interface
		options.Advisory = r.locker
	}
	if r.locks != nil && r.locks.watch != nil {
		options.Memcached = r.locks.watch
	}
	return options
}

// AccessOptions returns the options for the address of the page and for access to it.
func AccessOptions(config configs.Admin) admin.Options {
	options := admin.Options{Listen: config.Listen, Hosts: config.Hosts}
	for _, u := range config.Users {
		options.Users = append(options.Users,
			admin.User{Name: u.Name, Role: admin.Role(u.Role),
				PasswordHash: u.PasswordHash.Reveal()})
	}
	for _, t := range config.Tokens {
		options.Tokens = append(options.Tokens,
			admin.Token{Name: t.Name, Role: admin.Role(t.Role), Hash: t.TokenHash.Reveal()})
	}
	for _, k := range config.CookieKeys {
		options.CookieKeys = append(options.CookieKeys, []byte(k.Key.Reveal()))
	}
	if p := config.TrustedProxy; p != nil {
		options.Proxy = &admin.Proxy{Networks: p.Networks, UserHeader: p.UserHeader,
			Role: admin.Role(p.Role), Operators: p.Operators}
	}
	if config.TLS != nil {
		options.Certificate = &admin.Certificate{CertFile: config.TLS.CertFile,
			KeyFile: config.TLS.KeyFile}
	}
	return options
}

// accessOf returns the access rules of the page, which a reload can change.
func accessOf(config configs.Admin) admin.Access {
	o := AccessOptions(config)
	return admin.Access{Hosts: o.Hosts, Users: o.Users, Tokens: o.Tokens, Proxy: o.Proxy,
		CookieKeys: o.CookieKeys}
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
