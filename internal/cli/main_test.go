package cli

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// server is the PostgreSQL server of the tests. With -short there is none.
var server *servertest.Postgres

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(p *servertest.Postgres) { server = p }))
}
