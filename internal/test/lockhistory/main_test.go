package lockhistory

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

var server *servertest.Postgres

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(asClock) != "":
		r := NewRecorder(os.Stdout, "clock")
		r.Note("now")
		err = r.Err()
	case os.Getenv(asWorker) != "":
		err = runWorker(os.Getenv(asWorker))
	default:
		os.Exit(servertest.Main(m, func(pg *servertest.Postgres) { server = pg },
			"track_commit_timestamp=on"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
