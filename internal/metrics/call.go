package metrics

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

func (m *Metrics) describeCalls() {
	m.reloadWorked = m.gauge("holdfast_config_reload_success", "1 if the last reload of the "+
		"configuration succeeded, 0 if it was refused. 1 before the first reload.")
	m.reloadedAt = m.gauge("holdfast_config_reload_timestamp_seconds",
		"When the current configuration was read, in seconds since 1970.")
	m.Reloaded(nil)
	m.starts = m.counter("holdfast_starts_total",
		"Starts that the store decided on, by outcome. After lock_held, overlap, older_waiter "+
			"and group_full, the policies of the job decide whether the run waits. After "+
			"duplicate, stale and no_session, this replica drops the firing. The outcome paused "+
			"says that the job is paused or this replica is drained.", "outcome")
	m.swept = m.counter("holdfast_swept_sessions_total",
		"Expired sessions that this replica swept: of dead replicas, and of dead programs that "+
			"use locks without a scheduler.")
	m.storeTime = m.histogram(questions, "holdfast_store_duration_seconds",
		"Duration of calls to the store by operation, including the wait for a connection and "+
			"failed calls. One call can start or finish many runs, or record many waiting or "+
			"skipped firings.", "operation")
	m.storeErrors = m.counter("holdfast_store_errors_total",
		"Failed calls to the store by error: unavailable, row_held (blocked by an open "+
			"transaction), session_lost, superseded (the run lost its claim), cancelled (by the "+
			"caller), or other. A missing object or a refused action of an operator is no error.",
		"operation", "error")
	m.memcachedTime = m.histogram(requests, "holdfast_memcached_duration_seconds",
		"Duration of calls to memcached by operation, including failed calls.", "operation")
	m.memcachedErrors = m.counter("holdfast_memcached_errors_total",
		"Failed calls to memcached by error: unavailable, unclear (the reply was lost), full, or "+
			"other. A key that is held, is missing or has another owner is no error.", "operation",
		"error")
	m.swept.WithLabelValues()
}

// Reloaded counts a reload of the configuration, successful or refused with an
// error.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.reloadWorked.WithLabelValues().Set(0)
		return
	}
	m.reloadWorked.WithLabelValues().Set(1)
	m.reloadedAt.WithLabelValues().Set(float64(time.Now().UnixMilli()) / 1000)
}

// asked counts a call of the store.
func (m *Metrics) asked(operation string, start time.Time, err error) {
	m.storeTime.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	if err == nil || isAnswer(err) {
		return
	}
	kind := "other"
	switch {
	case errors.Is(err, context.Canceled):
		kind = "cancelled"
	case errors.Is(err, storage.ErrSessionLost):
		kind = "session_lost"
	case errors.Is(err, storage.ErrSuperseded):
		kind = "superseded"
	case errors.Is(err, storage.ErrRowHeld):
		kind = "row_held"
	case errors.Is(err, storage.ErrUnavailable):
		kind = "unavailable"
	}
	m.storeErrors.WithLabelValues(operation, kind).Inc()
}

// isAnswer reports whether an error is the answer of a store that works. Such a store does not have
// the object, or refuses the action of an operator.
func isAnswer(err error) bool {
	return slices.ContainsFunc([]error{storage.ErrNotFound, storage.ErrPaused, storage.ErrBusy,
		storage.ErrBadInput, storage.ErrConflict, storage.ErrFromConfig,
		storage.ErrInTransaction}, func(answer error) bool { return errors.Is(err, answer) })
}

// operation has the metrics of one operation of memcached.
type operation struct {
	metrics *Metrics
	name    string
	time    prometheus.Observer
}

func (m *Metrics) operation(name string) operation {
	for _, kind := range []string{"unavailable", "unclear", "full", "other"} {
		m.memcachedErrors.WithLabelValues(name, kind)
	}
	return operation{m, name, m.memcachedTime.WithLabelValues(name)}
}

func (o operation) note(start time.Time, errs ...error) {
	o.time.Observe(time.Since(start).Seconds())
	for _, err := range errs {
		if kind := faultOf(err); kind != "" {
			o.metrics.memcachedErrors.WithLabelValues(o.name, kind).Inc()
		}
	}
}

// faultOf returns the kind of failure of an error, or "" if the error is a normal
// reply.
func faultOf(err error) string {
	switch {
	case err == nil, errors.Is(err, locking.ErrNotStored), errors.Is(err, locking.ErrMissing),
		errors.Is(err, locking.ErrNotOwner):
		return ""
	case errors.Is(err, locking.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, locking.ErrUnclear):
		return "unclear"
	case errors.Is(err, locking.ErrFull):
		return "full"
	}
	return "other"
}

// backend is a locking.Backend that is timed.
type backend struct {
	inner                                      locking.Backend
	add, addAll, get, renew, remove, removeAll operation
}

// Backend returns inner with its operations timed. inner is memcached.
func (m *Metrics) Backend(inner locking.Backend) locking.Backend {
	return &backend{
		inner, m.operation("add"), m.operation("add_all"), m.operation("get"),
		m.operation("renew"), m.operation("delete"), m.operation("delete_all"),
	}
}

// Server implements locking.Backend.
func (b *backend) Server(key string) string { return b.inner.Server(key) }

// Add implements locking.Backend.
func (b *backend) Add(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	start := time.Now()
	err := b.inner.Add(ctx, key, value, ttl)
	b.add.note(start, err)
	return err
}

// AddAll implements locking.Backend.
func (b *backend) AddAll(ctx context.Context, items []locking.Item,
	ttl time.Duration) []locking.Added {
	start := time.Now()
	all := b.inner.AddAll(ctx, items, ttl)
	errs := make([]error, len(all))
	for i, added := range all {
		errs[i] = added.Err
	}
	b.addAll.note(start, errs...)
	return all
}

// Get implements locking.Backend.
func (b *backend) Get(ctx context.Context, keys ...string) (map[string][]byte, error) {
	start := time.Now()
	found, err := b.inner.Get(ctx, keys...)
	b.get.note(start, err)
	return found, err
}

// Renew implements locking.Backend.
func (b *backend) Renew(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	start := time.Now()
	err := b.inner.Renew(ctx, key, value, ttl)
	b.renew.note(start, err)
	return err
}

// Delete implements locking.Backend.
func (b *backend) Delete(ctx context.Context, key string, value []byte) error {
	start := time.Now()
	err := b.inner.Delete(ctx, key, value)
	b.remove.note(start, err)
	return err
}

// DeleteAll implements locking.Backend.
func (b *backend) DeleteAll(ctx context.Context, items []locking.Item) []error {
	start := time.Now()
	all := b.inner.DeleteAll(ctx, items)
	b.removeAll.note(start, all...)
	return all
}
