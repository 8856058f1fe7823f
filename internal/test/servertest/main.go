package servertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package beside one PostgreSQL server and returns the exit code for
// os.Exit. It first passes the server to use. Tests must not stop that server, because `make test`
// shares one among all packages that need no settings of their own. With -short, Main starts no
// server and does not call use. Tests that need the server must then skip.
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
