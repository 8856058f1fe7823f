package admin

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/race"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// These are shared by the tests of this package.
var (
	database *servertest.Postgres
	chromium browsertest.Browser // the first tab starts it
	parsed   = sync.OnceValues(pages.NewTemplates)
)

// raced matches the tests of concurrent requests, streams of events, sign-ins and actions, and of
// every route.
const raced = `^Test.*(Client|Event|Once$|Request|Serving|SignIn|Stream|Stop|Outage|Shutdown|` +
	`RoutesByRole|ActionsAre)`

// selectRaced selects the tests in raced if this binary has the race detector, as in `make race`,
// and neither a soak nor -run asks for others.
func selectRaced() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.run" })
	if !race.Enabled || given || soak.Running() {
		return nil
	}
	return flag.Set("test.run", raced)
}

func TestMain(m *testing.M) {
	if err := selectRaced(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := servertest.Main(m, func(pg *servertest.Postgres) { database = pg })
	if err := chromium.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
