package servertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package beside one PostgreSQL server, which it
// hands to use first, and returns the exit code for os.Exit. Tests must not stop
// that server: `make test` has one for all packages without settings of their
// own. With -short Main starts none, and use is not called: tests that need it
// are to skip.
func Main(m *testing.M, use func(*Postgres), settings ...string) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	server, err := sharedOrOwn(settings)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(server)
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func sharedOrOwn(settings []string) (*Postgres, error) {
	if len(settings) == 0 {
		if p, err := attach(); p != nil || err != nil {
			return p, err
		}
	}
	return StartPostgres(context.Background(), "", settings...)
}
