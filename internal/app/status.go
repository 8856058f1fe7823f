package app

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/admin/status"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const (
	// statusInterval is the time between checks of the status for the metrics.
	statusInterval = 15 * time.Second
	// statusIdle is how long a replica continues to check it after the metrics were read.
	statusIdle = 5 * time.Minute
	// statusTimeout is how long the metrics wait for the first check.
	statusTimeout = time.Second
)

// StatusOptions returns the options for the status of the configured cluster. Locks is nil if
// the caller does not check memcached.
func StatusOptions(config *configs.Config, store storage.History, ops *operations.Operations,
	locks *LockBackend) status.Options {
	o := status.Options{Store: store, StoreName: storeName(config), Operations: ops,
		Rules: status.Rules{FailingAfter: config.Status.FailingAfter,
			MaxOffset: config.Clock.MaxOffset}}
	if locks != nil && locks.watch != nil {
		o.Memcached = locks.watch
	}
	return o
}

// statusOptions returns the options for the status as this replica sees it.
func (r *Replica) statusOptions(config *configs.Config) status.Options {
	options := StatusOptions(config, r.timed, r.operations, r.locks)
	databases := r.databases // a request may read them after Close
	options.Databases = func() []status.JobDatabase { return databasesOfStatus(databases) }
	return options
}

// CheckLocks checks the memcached servers once. It does nothing for locks in memory.
func (b *LockBackend) CheckLocks(ctx context.Context) {
	if b.watch != nil {
		b.watch.Look(ctx)
	}
}

// Servers returns the result of the last check of the memcached servers. It is empty for locks in
// memory.
func (b *LockBackend) Servers() []memcached.Health {
	if b.watch == nil {
		return nil
	}
	return b.watch.Servers()
}

// statusMetric checks the status of the cluster while the metrics are read. Its methods may be used
// concurrently.
type statusMetric struct {
	wake chan struct{} // holds a value when the metrics were read

	mu       sync.Mutex
	read     time.Time       // when the metrics were last read
	severity status.Severity // "" if it is not known
	checked  chan struct{}   // closed when severity is known; nil while run is not called
}

func newStatusMetric() *statusMetric { return &statusMetric{wake: make(chan struct{}, 1)} }

// run checks the status until ctx ends, and then returns nil.
func (m *statusMetric) run(ctx context.Context,
	check func(ctx context.Context) status.Status) error {
	defer m.forget(nil)
	for {
		if !m.isRead() {
			m.forget(make(chan struct{}))
			select {
			case <-m.wake:
			case <-ctx.Done():
				return nil
			}
		}
		if v := check(ctx); ctx.Err() == nil {
			m.set(v.Severity)
		}
		if sleep.For(ctx, statusInterval) != nil {
			return nil
		}
	}
}

// isRead reports whether the metrics were read lately.
func (m *statusMetric) isRead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.read) < statusIdle
}

// forget makes the severity unknown.
func (m *statusMetric) forget(checked chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.severity, m.checked = "", checked
}

func (m *statusMetric) set(severity status.Severity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.severity == "" {
		close(m.checked)
	}
	m.severity = severity
}

// severities returns for each severity whether it is the current one. It waits for the first check
// for a while, and returns nil if the status is not known.
func (m *statusMetric) severities() map[string]bool {
	current, checked := m.get()
	if current == "" && checked != nil {
		select {
		case m.wake <- struct{}{}:
		default:
		}
		timer := sleep.Timer(statusTimeout)
		defer timer.Stop()
		select {
		case <-checked:
		case <-timer.C:
		}
		current, _ = m.get()
	}
	if current == "" {
		return nil
	}
	found := make(map[string]bool)
	for _, severity := range status.Severities() {
		found[string(severity)] = severity == current
	}
	return found
}

func (m *statusMetric) get() (status.Severity, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.checked != nil {
		m.read = time.Now()
	}
	return m.severity, m.checked
}
