package app

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/systemd"
)

// Supervisor runs an open replica and tells systemd its state. Reload may be called during Run.
type Supervisor struct {
	replica *Replica
	manager *systemd.Notifier
	failed  atomic.Bool // a message was not sent, and the log says so
}

// NewSupervisor returns a supervisor of a replica whose Open has succeeded.
func NewSupervisor(r *Replica, manager *systemd.Notifier) *Supervisor {
	return &Supervisor{replica: r, manager: manager}
}

const (
	// statusEvery is the time between two looks at the readiness of the replica.
	statusEvery = time.Second
	// shutdownMargin is how long a shutdown may last beyond shutdown_grace.
	shutdownMargin = 15 * time.Second
)

// Run is [Replica.Run]. It says that the process is ready when it begins: the store has answered
// and the page listens. A replica that cannot start runs at the moment says so in its status.
func (s *Supervisor) Run(ctx context.Context) error {
	if !s.manager.Enabled() {
		return s.replica.Run(ctx)
	}
	running, ended := context.WithCancel(context.WithoutCancel(ctx))
	var informing sync.WaitGroup
	informing.Go(func() { s.inform(running, ctx.Done()) })
	err := s.replica.Run(ctx)
	ended()
	informing.Wait()
	return err
}

// Reload is [Replica.Reload].
func (s *Supervisor) Reload(load func() (*configs.Config, error)) error {
	s.sent(s.manager.Reloading())
	err := s.replica.Reload(load)
	s.sent(s.manager.Ready()) // also after a mistake: the replica goes on as before
	return err
}

// inform sends the state of the replica until running ends. stopping is closed when the replica
// shuts down.
func (s *Supervisor) inform(running context.Context, stopping <-chan struct{}) {
	s.sent(s.manager.Ready())
	states := time.NewTicker(statusEvery)
	defer states.Stop()
	var watchdog <-chan time.Time
	if limit := s.manager.Watchdog(); limit > 0 {
		ticker := time.NewTicker(limit / 2)
		defer ticker.Stop()
		watchdog = ticker.C
	}
	for status, alive := "", false; ; {
		// The call takes the locks of the scheduler. If it hangs, systemd gets no more messages.
		text := s.readiness(running)
		select {
		case <-stopping: // before the status that says so
			stopping = nil
			grace := s.replica.config.Load().ShutdownGrace
			s.sent(s.manager.Stopping(grace + shutdownMargin))
		default:
		}
		if text != status {
			status = text
			s.sent(s.manager.Status(text))
		}
		if alive {
			s.sent(s.manager.Alive())
		}
		select {
		case <-states.C:
			alive = false
		case <-watchdog:
			alive = true
		case <-stopping:
			alive = false
		case <-running.Done():
			return
		}
	}
}

// readiness returns the readiness of the replica as a text.
func (s *Supervisor) readiness(ctx context.Context) string {
	if err := s.replica.Ready(ctx); err != nil {
		return err.Error()
	}
	return "ready"
}

// sent logs the first message that could not be sent.
func (s *Supervisor) sent(err error) {
	if err != nil && !s.failed.Swap(true) {
		s.replica.log.Warn().Err(err).Msg("systemd does not get the state of the replica")
	}
}
