package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestReplicasSealTheAuditLog checks that a replica with the option seals the actions of both
// replicas.
func TestReplicasSealTheAuditLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stopOther := c.start(c.options("a", nil))
		pause := func(name string) {
			t.Helper()
			if _, err := c.store.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
				storage.Target{Kind: storage.TargetGroup, Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		sealed := func(want int) {
			t.Helper()
			time.Sleep(7 * time.Second)
			if v, err := storage.VerifyAudit(t.Context(), c.store,
				storage.ChainRules{}); err != nil ||
				v.Problem != "" || v.Checked != want {
				t.Errorf("%+v, %v, want %d sealed entries", v, err, want)
			}
		}
		pause("first")
		sealed(0)
		o := c.options("b", nil)
		o.SealAudit = true
		stop := c.start(o)
		sealed(1)
		pause("second")
		pause("third")
		sealed(3)
		stop()
		stopOther()
	})
}
