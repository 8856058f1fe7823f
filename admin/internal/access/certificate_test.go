package access

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

func serialOf(t *testing.T, c *Certificate) int64 {
	t.Helper()
	got, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.SerialNumber.Int64()
}

func TestCertificateIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		first, second, third := accesstest.NewPair(t, 1), accesstest.NewPair(t, 2),
			accesstest.NewPair(t, 3)
		files := accesstest.NewPairFiles(t, first)
		c, err := NewCertificate(CertificateFiles{files.CertFile, files.KeyFile},
			zerolog.New(&logged))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want int64) {
			t.Helper()
			time.Sleep(certificateCheckInterval)
			if got := serialOf(t, c); got != want {
				t.Errorf("%s: certificate %d, want %d", when, got, want)
			}
		}
		expect("at first", 1)
		files.Write(t, files.CertFile, second.Certificate)
		expect("while only one file is new", 1)
		expect("and later", 1)
		if got := strings.Count(logged.String(), "can't be used"); got != 1 {
			t.Errorf("the trouble is logged %d times, want once: %s", got, &logged)
		}
		files.Write(t, files.KeyFile, second.Key)
		if got := serialOf(t, c); got != 1 {
			t.Errorf("files are looked at for each handshake")
		}
		expect("when both are new", 2)
		files.Write(t, files.CertFile, []byte("-----BEGIN hunter2"))
		expect("with a broken file", 2)
		if err := os.Remove(files.KeyFile); err != nil {
			t.Fatal(err)
		}
		expect("without a file", 2)
		files.Write(t, files.CertFile, third.Certificate)
		files.Write(t, files.KeyFile, third.Key)
		expect("when both are whole again", 3)
		expect("and later", 3)
		if got := strings.Count(logged.String(), "is in use"); got != 2 {
			t.Errorf("two changes are logged %d times", got)
		}
		if strings.Contains(logged.String(), "hunter2") ||
			strings.Contains(logged.String(), "PRIVATE") {
			t.Errorf("log shows the files: %s", &logged)
		}
	})
}
