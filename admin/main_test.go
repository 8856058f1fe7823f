package admin

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// These are shared by the tests of this package.
var (
	database *servertest.Postgres
	chromium browsertest.Browser // the first tab starts it
	parsed   = sync.OnceValues(pages.NewTemplates)
)

func TestMain(m *testing.M) {
	code := servertest.Main(m, func(pg *servertest.Postgres) { database = pg })
	if err := chromium.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
