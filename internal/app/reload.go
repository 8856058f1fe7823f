package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
)

// ErrNotOpen says that a Replica was not opened, or that opening it failed.
var ErrNotOpen = errors.New("replica is not open")

// Reload loads the configuration again and takes from it what can change while the replica runs:
// the jobs with all that decides about them, who may use the page, and the level of the log. What
// is different beyond that is named in the log, and stays as it was until the next start. Runs
// under way are not touched. Where load returns an error, or the configuration is refused, nothing
// changes; the error goes to the log, with file, line and column of each mistake, and to the
// metrics.
//
// It may be called concurrently once Open has succeeded.
func (r *Replica) Reload(load func() (*configs.Config, error)) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if r.scheduler == nil {
		return fmt.Errorf("reload: %w", ErrNotOpen)
	}
	next, err := load()
	if err == nil {
		err = r.take(next)
	}
	r.metrics.Reloaded(err)
	if err != nil {
		r.logMistakes(err)
		return fmt.Errorf("reload: %w", err)
	}
	return nil
}

// reloadable are the keys that a reload takes; a section's stands for all in it.
var reloadable = []string{
	"jobs", "calendars", "groups", "timezone", "misfire_threshold", "default_schema",
	"locking.wait",
	"admin.hosts", "admin.users", "admin.tokens", "admin.trusted_proxy", "admin.cookie_keys",
	"log.level",
}

func isReloadable(key string) bool {
	return slices.ContainsFunc(reloadable, func(known string) bool {
		return key == known || strings.HasPrefix(key, known+".")
	})
}

// take takes what can change of a configuration.
func (r *Replica) take(next *configs.Config) error {
	if err := next.CheckRead(); err != nil {
		return err
	}
	before := r.config.Load()
	later := slices.DeleteFunc(before.Differences(next), isReloadable)
	later = append(later, changedPlaces(before, next)...)
	if r.level == nil && before.Log.Level != next.Log.Level {
		later = append(later, "log.level") // the log is the program's
	}
	now := merged(before, next)
	table := Jobs(now)
	access := accessOf(now.Admin)
	if r.page != nil {
		if err := r.page.CheckAccess(access); err != nil {
			return err
		}
	}
	r.config.Store(now) // before the jobs that were added are built anew
	revision, err := r.scheduler.SetJobs(table)
	if err != nil {
		r.config.Store(before)
		return err
	}
	r.operations.SetJobs(table)
	r.metrics.Expect(table)
	if r.level != nil {
		r.level.set(now.Log.Level)
	}
	if r.page != nil {
		if err := r.page.SetAccess(access); err != nil {
			return err
		}
	}
	r.logReload(revision, later)
	return nil
}

// merged is the configuration before with what a reload takes of next.
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
	now.Locking.Wait = next.Locking.Wait
	a, n := &now.Admin, next.Admin
	a.Hosts, a.Users, a.Tokens, a.TrustedProxy, a.CookieKeys = n.Hosts, n.Users, n.Tokens,
		n.TrustedProxy, n.CookieKeys
	now.Log.Level = next.Log.Level
	return &now
}

// changedPlaces names the limits of groups on this replica that stay as they are: their places are
// taken by firings under way.
func changedPlaces(before, next *configs.Config) (keys []string) {
	for _, g := range next.Groups {
		if was := before.Group(g.Name); was.PerReplica != 0 && was.PerReplica != g.PerReplica {
			keys = append(keys, fmt.Sprintf("groups[%s].per_replica", g.Name))
		}
	}
	return keys
}

// maxReloaded is how many jobs the log names of each kind.
const maxReloaded = 50

func (r *Replica) logReload(revision jobs.Revision, later []string) {
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
	if len(later) > 0 {
		log.Warn().Strs("keys", later).
			Msg("changed keys need a restart, the replica goes on with the old values")
	}
}

// logMistakes logs each mistake in a configuration by itself.
func (r *Replica) logMistakes(err error) {
	log := r.log.With().Str("replica", r.config.Load().Replica.Name).Logger()
	var wrong *configs.Errors
	if !errors.As(err, &wrong) {
		log.Error().Err(err).Msg("configuration not reloaded, the old one stays")
		return
	}
	for _, p := range wrong.Problems {
		mistake(log.Error(), p).Msg("mistake in the configuration")
	}
	log.Error().Int("mistakes", len(wrong.Problems)).
		Msg("configuration not reloaded, the old one stays")
}

func mistake(e *zerolog.Event, p configs.Problem) *zerolog.Event {
	return e.Str("file", p.File).Int("line", p.Line).Int("column", p.Column).Str("key", p.Key).
		Str("detail", p.Message)
}
