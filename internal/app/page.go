package app

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
)

func (r *Replica) pageOptions() admin.Options {
	options := AccessOptions(r.config.Load().Admin)
	options.Operations = r.operations
	options.Metrics, options.Trace = r.metrics.Handler(), r.traceOf
	options.Store, options.Replica, options.Session, options.Version = r.timed,
		r.config.Load().Replica.Name, r.scheduler.Session, Version()
	options.Explain = r.scheduler.Explainer(r.config.Load().History.Keep).Explain
	options.Attempts, options.Restarts = r.store.Attempts, r.store.Restarts
	options.StoreName, options.Memory, options.Watch = storeName(r.config.Load()), r.timed,
		r.timed.Watch
	options.Changes = r.timed
	options.LongestWait = r.scheduler.LongestWait
	options.Upcoming, options.ScheduledTimes, options.Ready, options.Refresh, options.Log =
		r.upcoming, r.scheduler.ScheduledTimes, r.scheduler.Ready, r.config.Load().Admin.Refresh,
		r.log
	return options
}

// AccessOptions says where the page is served, and who may use it.
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

// accessOf says who may use the page.
func accessOf(config configs.Admin) admin.Access {
	o := AccessOptions(config)
	return admin.Access{Hosts: o.Hosts, Users: o.Users, Tokens: o.Tokens, Proxy: o.Proxy,
		CookieKeys: o.CookieKeys}
}

func (r *Replica) upcoming(from time.Time, n int) []admin.ScheduledFiring {
	scheduledTimes := r.scheduler.Upcoming(from, n)
	shown := make([]admin.ScheduledFiring, len(scheduledTimes))
	for i, d := range scheduledTimes {
		shown[i] = admin.ScheduledFiring(d)
	}
	return shown
}
