package app

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs/explain"
)

// checkPage returns an error for an address of a page that the program does not have.
func checkPage(config *configs.Config, maker page.Maker) error {
	if config.Admin.Listen == "" || maker != nil {
		return nil
	}
	return fmt.Errorf("found the address %s in admin.listen of a program without the page, "+
		"expected holdfast.WithAdmin(admin.Page) with the package "+
		"github.com/holdfast-dev/holdfast/admin, or \"\" in admin.listen for no page",
		config.Admin.Listen)
}

// openPage makes the page, if it is configured, and listens on its address.
func (r *Replica) openPage(_ context.Context, config *configs.Config) error {
	if config.Admin.Listen == "" {
		return nil
	}
	server, err := r.maker(r.pageParts(config))
	if err != nil {
		return err
	}
	r.page = server
	return r.page.Listen()
}

// accessOf returns who may use a page.
func (r *Replica) accessOf(config configs.Admin) page.Access {
	return page.Access{Config: config, Authorizer: r.authorizer}
}

// pageParts returns what a page shows and needs of the open replica. A request may use it after
// Close, so its functions do not read the parts of r.
func (r *Replica) pageParts(config *configs.Config) page.Parts {
	parts := page.Parts{Access: r.accessOf(config.Admin), Refresh: config.Admin.Refresh, Log: r.log,
		Replica: config.Replica.Name, Session: r.scheduler.Session, Version: Version(),
		Ready: r.scheduler.Ready}

	parts.Status = r.statusOptions(config)
	parts.Store = r.timed
	parts.LoginAttempts, parts.SignOuts = r.store.LoginAttempts, r.store.SignOuts
	parts.Events, parts.Restarts = r.store.Events, r.store.Restarts
	if r.locker != nil { // a nil *locking.Locker would not be a nil interface
		parts.Advisory = r.locker
	}
	if r.load != nil {
		parts.Reload = r.reloadBy
	}

	parts.Heartbeats = r.scheduler.Heartbeats
	parts.Upcoming, parts.ScheduledTimes = upcomingOf(r.scheduler), r.scheduler.ScheduledTimes
	parts.LongestWait, parts.WaitEnd = r.scheduler.LongestWait, r.scheduler.WaitEnd
	parts.Table = r.scheduler.Table()
	parts.Explain = explain.New(explain.Options{Store: r.timed, Table: parts.Table,
		Pauses: r.timed.Pauses, Keep: config.History.Keep}).Explain
	parts.Metrics, parts.Trace = r.metrics.Handler(), r.tracesOf(r.traces)
	return parts
}

// upcomingOf returns a function for the page that returns the next n scheduled firings after from.
func upcomingOf(scheduler *engine.Scheduler) func(from time.Time, n int) []page.ScheduledFiring {
	return func(from time.Time, n int) []page.ScheduledFiring {
		firings := scheduler.Upcoming(from, n)
		shown := make([]page.ScheduledFiring, len(firings))
		for i, f := range firings {
			shown[i] = page.ScheduledFiring(f)
		}
		return shown
	}
}
