package holdfasttest_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

var server *servertest.Postgres // nil with -short

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(pg *servertest.Postgres) { server = pg }))
}

// database returns the URL of an empty database, or skips the test.
func database(t *testing.T) string {
	t.Helper()
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	return server.Database(t)
}

// judged is a testing.TB that records failures instead of failing.
type judged struct {
	testing.TB
	said []string
}

func (j *judged) Helper() {}

func (j *judged) Errorf(format string, args ...any) {
	j.said = append(j.said, fmt.Sprintf(format, args...))
}

func (j *judged) Fatalf(format string, args ...any) {
	j.Errorf(format, args...)
	runtime.Goexit()
}

func (j *judged) Fatal(args ...any) {
	j.said = append(j.said, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	runtime.Goexit()
}

// failures returns what a test says that fails.
func failures(t *testing.T, test func(tb testing.TB)) []string {
	t.Helper()
	j, done := &judged{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		test(j)
	}()
	<-done
	return j.said
}

// expectFailure checks that the test fails with one message that has these parts.
func expectFailure(t *testing.T, test func(tb testing.TB), parts ...string) {
	t.Helper()
	said := failures(t, test)
	if len(said) != 1 {
		t.Errorf("got the failures %q, want one with %q", said, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(said[0], part) {
			t.Errorf("got %q, want %q in it", said[0], part)
		}
	}
}
