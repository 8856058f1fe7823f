package attacks

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// If asProgram is set, the test binary runs as the stock program.
const asProgram = "HOLDFAST_ATTACKS_PROGRAM"

// server is a PostgreSQL server of this package, because an attack creates roles. It is nil unless
// this is a soak.
var server *servertest.Postgres

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asProgram) != "":
		cli.Main()
	case !soak.Running():
		os.Exit(m.Run())
	default:
		os.Exit(servertest.Main(m, func(p *servertest.Postgres) { server = p },
			"max_connections=100"))
	}
}
