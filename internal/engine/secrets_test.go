package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
)

// A handler may print a param that was expanded from a variable. The history, the log and the
// listeners then get [redacted].
func TestSecretsOfParamsAreMasked(t *testing.T) {
	const token = "hunter2hunter2"
	for name, fails := range map[string]jobs.HandlerFunc{
		"an error": func(context.Context, *jobs.Run) error {
			return fmt.Errorf("POST https://hooks.example.com/T1/%s: got 404", token)
		},
		"a panic": func(context.Context, *jobs.Run) error { panic("token " + token) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				var log bytes.Buffer
				var heard []string
				handler := jobs.Handle("work",
					func(ctx context.Context, run *jobs.Run, _ struct{}) error {
						fmt.Fprintf(run.Output(), "token %s\n", token)
						run.Log().Warn().Str("header", "Bearer "+token).Msg("sent " + token)
						return fails(ctx, run)
					})
				j := once(t, "job", 10*time.Second, "orders")
				j.Secrets = []string{token, "https://hooks.example.com/T1/" + token}
				o := c.options("a", []jobs.Registration{handler}, j)
				o.LogOutput, o.Log = &log, zerolog.New(&log)
				o.Listeners = []jobs.Listener{func(_ context.Context, e jobs.Event) {
					heard = append(heard, e.Error+e.Detail)
				}}
				stop := c.start(o)
				time.Sleep(20 * time.Second)
				stop()
				runs := c.runs("job")
				if len(runs) != 1 || runs[0].State != jobs.Failed {
					t.Fatalf("got %+v, want one failed run", runs)
				}
				run, err := c.store.Run(t.Context(), runs[0].ID)
				if err != nil {
					t.Fatal(err)
				}
				shown := fmt.Sprint(run, log.String(), heard)
				if strings.Contains(shown, token) || strings.Contains(shown, "T1") {
					t.Errorf("a secret is shown: %s", shown)
				}
				for what, text := range map[string]string{
					"error": run.Error, "output": run.Output, "log": log.String(),
					"event": strings.Join(heard, ""),
				} {
					if !strings.Contains(text, "[redacted]") {
						t.Errorf("the %s is %q, want it with [redacted]", what, text)
					}
				}
			})
		})
	}
}
