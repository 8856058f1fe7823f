package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// Member is the member that this process is: a program that takes locks and schedules no jobs.
type Member struct {
	Name   string
	Locker *locking.Locker
	Store  *postgres.Store

	backend *memcached.Backend
	stop    context.CancelFunc
	keeping sync.WaitGroup
	kept    error // the result of the Locker's Run
}

// Settings are the timing and limits of a member's locks.
type Settings struct {
	Lease      time.Duration // of advisory locks; 0 means 30 s
	SessionTTL time.Duration // how long the locks of a dead member exist; 0 means 15 s
	// The number of connections to PostgreSQL, both for grants and for fenced transactions. 0 means
	// 10.
	Connections int
}

// Joining reports whether this process was started as a member.
func Joining() bool { return os.Getenv(memberName) != "" }

// Join opens the store and the Locker of this process's member, and returns once it can lock.
func Join(ctx context.Context, s Settings) (*Member, error) {
	return join(ctx, os.Getenv(memberName), os.Getenv(memberDatabase), os.Getenv(memberMemcached),
		s)
}

// Join makes the process that started the fleet a member too.
func (f *Fleet) Join(ctx context.Context, name string, s Settings) (*Member, error) {
	return join(ctx, name, f.URL, f.Memcached.Addr(), s)
}

func join(ctx context.Context, name, url, memcachedAddress string,
	s Settings) (_ *Member, err error) {
	m := &Member{Name: name}
	defer func() {
		if err != nil {
			err = fmt.Errorf("member %s: %w", m.Name, errors.Join(err, m.Leave()))
		}
	}()
	log := zerolog.New(os.Stderr).With().Timestamp().Str("member", m.Name).Logger()
	m.Store, err = postgres.Open(ctx, postgres.Options{
		URL: url, Migrate: true, MaxConnections: s.Connections, WorkConnections: s.Connections,
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	m.backend, err = memcached.New(memcached.Options{Servers: []string{memcachedAddress}})
	if err != nil {
		return nil, err
	}
	lease := s.Lease
	if lease == 0 {
		lease = 30 * time.Second
	}
	m.Locker, err = locking.New(m.backend, locking.Options{
		Namespace: m.Store.ClusterID().String(), Lease: lease, Grants: m.Store.Grants(),
		Session: locking.Session{Replica: m.Name, TTL: s.SessionTTL, ReplaceEarlier: true},
		Log:     log,
	})
	if err != nil {
		return nil, err
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	m.keeping.Go(func() { m.kept = m.Locker.Run(keep) })
	return m, m.Locker.Ready(ctx)
}

// Owner returns the owner of the member's locks. work describes the purpose.
func (m *Member) Owner(work string) locking.Owner {
	return locking.Owner{Replica: m.Name, Job: work}
}

// Leave ends the member's session, and with it its locks.
func (m *Member) Leave() error {
	if m.stop != nil {
		m.stop()
	}
	m.keeping.Wait()
	problems := []error{m.kept}
	if m.backend != nil {
		problems = append(problems, m.backend.Close())
	}
	if m.Store != nil {
		m.Store.Close()
	}
	return errors.Join(problems...)
}
