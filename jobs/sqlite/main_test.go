package sqlite_test

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

func TestMain(m *testing.M) {
	if err := soak.Checks(20); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
