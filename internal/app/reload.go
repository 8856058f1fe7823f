package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// ErrNotOpen is the error of a method that needs an open Replica.
var ErrNotOpen = errors.New("replica is not open")

// ErrHasRun is the error of Run and Open after Run.
var ErrHasRun = errors.New("replica has run already, and a new one is needed")

// Reload loads the configuration again and applies the keys in reloadable. It logs other changed
// keys, which need a restart. Active runs do not change.
//
// If load returns an error, or the configuration is refused, nothing changes. Reload returns the
// error, counts it in the metrics, and logs file, line and column of each mistake. Before Open it
// returns ErrNotOpen, and after Run ErrStopped. After Open, it may be called concurrently.
func (r *Replica) Reload(load func() (*configs.Config, error)) error {
	name := r.config.Load().Replica.Name
	_, err := r.reload(load, storage.Action{Actor: "replica " + name, Via: "go", Replica: name})
	return err
}

// reloadBy reloads the configuration for an operator, for the API.
func (r *Replica) reloadBy(_ context.Context, by storage.Action) (page.Reloaded, error) {
	done, err := r.reload(r.load, by)
	if err != nil {
		return page.Reloaded{}, &page.ReloadError{Mistakes: mistakesIn(err)}
	}
	return page.Reloaded{Replica: by.Replica, Added: done.Added, Changed: done.Changed,
		Removed: done.Removed, Restart: done.Restart}, nil
}

// reload is Reload by an actor. It returns what has changed.
func (r *Replica) reload(load func() (*configs.Config, error), by storage.Action) (reloaded,
	error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if err := r.Stopped(); err != nil {
		return reloaded{}, fmt.Errorf("reload: %w", err)
	}
	if r.parts.Load() == nil {
		return reloaded{}, fmt.Errorf("reload: %w", ErrNotOpen)
	}
	next, err := load()
	var outcome reloaded
	if err == nil {
		outcome, err = r.apply(next)
	}
	r.metrics.Reloaded(err)
	r.auditReload(outcome, err, by)
	if err != nil {
		r.logMistakes(err)
		return reloaded{}, fmt.Errorf("reload: %w", err)
	}
	return outcome, nil
}

// mistakesIn returns the number of mistakes of an error of a reload.
func mistakesIn(err error) int {
	if wrong := (*configs.Errors)(nil); errors.As(err, &wrong) {
		return len(wrong.Problems)
	}
	return 1
}

// auditTimeout bounds the wait for the audit log after a reload.
const auditTimeout = 2 * time.Second

// auditReload writes a reload to the audit log. Mistakes are counted and not quoted, because they
// may quote values of the configuration.
func (r *Replica) auditReload(outcome reloaded, failure error, by storage.Action) {
	name := r.config.Load().Replica.Name
	event, detail := storage.AuditReload, any(outcome)
	if failure != nil {
		event, detail = storage.AuditReloadRefused,
			map[string]int{"mistakes": mistakesIn(failure)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	if err := r.store.Events.WriteAudit(ctx, by, event, "replica "+name, detail); err != nil {
		r.log.Warn().Str("replica", name).Err(err).
			Msg("the reload can't be written to the audit log")
	}
}

// reloaded says what a reload changed. Added, Changed and Removed are names of jobs. Restart has
// the changed keys that need a restart. Each list has at most maxReloaded entries.
type reloaded struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Restart []string `json:"restart,omitempty"`
}

// reloadable are the keys that a reload applies. The key of a section includes all keys in it.
var reloadable = []string{
	"jobs", "calendars", "groups", "timezone", "misfire_threshold", "default_schema",
	"locking.wait", "added_jobs",
	"admin.hosts", "admin.users", "admin.tokens", "admin.trusted_proxy", "admin.oidc",
	"admin.cookie_keys", "admin.roles",
	"log.level",
}

// isReloadable reports whether a reload applies a key.
func isReloadable(key string) bool {
	return slices.ContainsFunc(reloadable, func(prefix string) bool {
		return key == prefix || strings.HasPrefix(key, prefix+".")
	})
}

// apply applies the reloadable keys of a configuration, and logs the others.
func (r *Replica) apply(next *configs.Config) (done reloaded, err error) {
	if err := next.CheckRead(); err != nil {
		return done, err
	}
	before := r.config.Load()
	restart := slices.DeleteFunc(before.Differences(next), isReloadable)
	restart = append(restart, changedLimits(before, next)...)
	if r.level == nil && before.Log.Level != next.Log.Level {
		restart = append(restart, "log.level") // the program supplies the log
	}
	now := merged(before, next)
	if err := checkStore(now, r.registry); err != nil {
		return done, err
	}
	table := Jobs(now)
	access := r.accessOf(now.Admin)
	if err := r.checkAccess(access); err != nil {
		return done, err
	}
	r.config.Store(now) // SetJobs builds the added jobs by it
	revision, err := r.scheduler.SetJobs(table)
	if err != nil {
		r.config.Store(before)
		return done, err
	}
	if r.ran.Load() {
		r.config.Store(r.withoutJobs(now))
	}
	r.metrics.Expect(table)
	if r.level != nil {
		r.level.set(now.Log.Level)
	}
	if err := r.setAccess(access); err != nil {
		return done, err
	}
	r.logReload(revision, restart)
	few := func(names []string) []string { return names[:min(len(names), maxReloaded)] }
	return reloaded{few(revision.Added), few(revision.Changed), few(revision.Removed),
		few(restart)}, nil
}

// merged returns the configuration before, with the reloadable keys of next.
func merged(before, next *configs.Config) *configs.Config {
	now := *before
	now.Jobs, now.Calendars, now.Groups = next.Jobs, next.Calendars, slices.Clone(next.Groups)
	for i, g := range now.Groups {
		if was := before.Group(g.Name); was.PerReplica != 0 {
			now.Groups[i].PerReplica = was.PerReplica
		}
	}
	now.Timezone, now.MisfireThreshold, now.DefaultSchema = next.Timezone, next.MisfireThreshold,
		next.DefaultSchema
	now.Locking.Wait, now.AddedJobs = next.Locking.Wait, next.AddedJobs
	a, n := &now.Admin, next.Admin
	a.Hosts, a.Users, a.Tokens, a.TrustedProxy, a.OIDC, a.CookieKeys, a.Roles = n.Hosts, n.Users,
		n.Tokens, n.TrustedProxy, n.OIDC, n.CookieKeys, n.Roles
	now.Log.Level = next.Log.Level
	return &now
}

// changedLimits returns the keys of limits per replica that need a restart, because active firings
// occupy their slots.
func changedLimits(before, next *configs.Config) (keys []string) {
	for _, g := range next.Groups {
		if was := before.Group(g.Name); was.PerReplica != 0 && was.PerReplica != g.PerReplica {
			keys = append(keys, fmt.Sprintf("groups[%s].per_replica", g.Name))
		}
	}
	return keys
}

// maxReloaded is the largest number of added, changed or removed jobs that the log, the audit log
// and the API name.
const maxReloaded = 50

// logReload logs the changes of a reload, and the changed keys that need a restart.
func (r *Replica) logReload(revision engine.Revision, restart []string) {
	log := r.log.With().Str("replica", r.config.Load().Replica.Name).Logger()
	event := log.Info()
	for _, part := range []struct {
		key   string
		names []string
	}{{"added", revision.Added}, {"changed", revision.Changed}, {"removed", revision.Removed}} {
		event.Int(part.key, len(part.names)).
			Strs(part.key+"_jobs", part.names[:min(len(part.names), maxReloaded)])
	}
	event.Msg("configuration reloaded")
	if len(restart) > 0 {
		log.Warn().Strs("keys", restart).Msg("changed keys need a restart")
	}
}

// logMistakes logs each mistake in a configuration on its own line.
func (r *Replica) logMistakes(err error) {
	log := r.log.With().Str("replica", r.config.Load().Replica.Name).Logger()
	var wrong *configs.Errors
	if !errors.As(err, &wrong) {
		log.Error().Err(err).Msg("configuration not reloaded")
		return
	}
	for _, p := range wrong.Problems {
		log.Error().Str("file", p.File).Int("line", p.Line).Int("column", p.Column).
			Str("key", p.Key).Str("detail", p.Message).Msg("mistake in the configuration")
	}
	log.Error().Int("mistakes", len(wrong.Problems)).Msg("configuration not reloaded")
}
