package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
)

// TestExamineInspections checks findings that no real server of the tests has. The tests of the
// command doctor check those of a real server.
func TestExamineInspections(t *testing.T) {
	config := configs.Defaults()
	for _, c := range []struct {
		name    string
		examine func(*examiner)
		want    Result
	}{
		{"old server", func(e *examiner) {
			e.examineServer(postgres.Inspection{Version: "12.9", VersionNumber: 120009})
		}, Failed},
		{"oldest server", func(e *examiner) {
			e.examineServer(postgres.Inspection{Version: "13.0", VersionNumber: 130000})
		}, OK},
		{"clock ahead", func(e *examiner) {
			e.examineClock(postgres.Inspection{Offset: 11 * time.Second})
		}, Failed},
		{"clock behind", func(e *examiner) {
			e.examineClock(postgres.Inspection{Offset: -11 * time.Second})
		}, Failed},
		{"clock", func(e *examiner) {
			e.examineClock(postgres.Inspection{Offset: -9 * time.Second})
		}, OK},
		{"newer schema", func(e *examiner) {
			e.examineSchema(postgres.Inspection{Schema: &postgres.SchemaError{MinBinary: 2}})
		}, Failed},
		{"schema that cannot be read", func(e *examiner) {
			e.examineSchema(postgres.Inspection{Schema: errors.New("permission denied")})
		}, Failed},
		{"schema", func(e *examiner) {
			e.examineSchema(postgres.Inspection{Cluster: uuid.New()})
		}, OK},
	} {
		e := &examiner{config: &config}
		c.examine(e)
		if len(e.checks) != 1 || e.checks[0].Result != c.want ||
			(e.checks[0].Advice == "") != (c.want == OK) {
			t.Errorf("%s: found %+v, want one check that is %s", c.name, e.checks, c.want)
		}
	}
	e := &examiner{config: &config}
	e.examineSettings("settings", postgres.Inspection{ReadCommitted: postgres.ErrIsolation,
		StatementTimeout: time.Second, IdleTimeout: 59 * time.Second})
	for i, want := range []Result{Failed, Warning, Warning} {
		if e.checks[i].Result != want || e.checks[i].Advice == "" {
			t.Errorf("settings: found %+v, want %s", e.checks[i], want)
		}
	}
}
