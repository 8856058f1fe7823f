package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A handler may ignore the end of its context inside a transaction while its session remains live.
// Its run must end and its claim become free. The handler's later writes must have no effect.
func TestTransactionOfAnAbandonedHandlerIsEnded(t *testing.T) {
	t.Parallel()
	for name, within := range map[string]func(*testing.T, *jobs.Run, func(pgx.Tx) error) error{
		"InTx": func(t *testing.T, run *jobs.Run, fn func(pgx.Tx) error) error {
			return InTx(t.Context(), run, fn)
		},
		"CompleteInTx": func(t *testing.T, run *jobs.Run, fn func(pgx.Tx) error) error {
			return CompleteInTx(t.Context(), run, fn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			s.exec("CREATE TABLE public.totals (n int)")
			run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "totals"))
			asleep, wake, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				done <- within(t, run, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), "INSERT INTO public.totals VALUES (1)")
					close(asleep)
					<-wake
					return err
				})
			}()
			<-asleep
			s.a.lockTimeout = "200ms"
			end := storage.FinishRequest{Run: run.ID, Token: run.Token, State: jobs.TimedOut,
				Reason: reasons.Timeout}
			if _, err := s.a.Finish(t.Context(), []storage.FinishRequest{end}); !errors.Is(err,
				storage.ErrRowHeld) {
				t.Errorf("finish of a run whose handler may still commit: %v", err)
			}
			end.LeftBehind = true
			ended, err := s.a.Finish(t.Context(), []storage.FinishRequest{end})
			for errors.Is(err, storage.ErrRowHeld) { // the backend has not ended yet
				ended, err = s.a.Finish(t.Context(), []storage.FinishRequest{end})
			}
			if err != nil || !ended[0] {
				t.Errorf("finish of a run whose handler was left behind: %v, %v", ended, err)
			}
			if state := s.state(run.ID); state != "timed_out" {
				t.Errorf("run is %s", state)
			}
			if n := query[int](s, "SELECT count(*) FROM holdfast.claims"); n != 0 {
				t.Errorf("%d claims stand", n)
			}
			close(wake)
			if err := <-done; err == nil {
				t.Error("commit of an abandoned handler: got success, want an error")
			}
			if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 0 {
				t.Errorf("%d rows of a handler that was left behind", n)
			}
		})
	}
}
