package access

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// certificateCheckInterval is the minimum time between two checks of the files. A check takes place
// at a handshake.
const certificateCheckInterval = time.Second

// CertificateFiles names the PEM files of the server's certificate chain and key. They are read
// again when they change.
type CertificateFiles struct {
	CertFile, KeyFile string
}

// Certificate is the server's certificate, reloaded when its files change. If the new files are
// invalid, the server goes on with the old certificate. It is safe for concurrent use.
type Certificate struct {
	files CertificateFiles
	log   zerolog.Logger

	mu       sync.Mutex
	pair     *tls.Certificate
	looked   time.Time
	loaded   fileStamps // of pair
	rejected fileStamps // of the last invalid files
}

// fileStamps identify a version of the files.
type fileStamps [2]struct {
	changed time.Time
	size    int64
}

// NewCertificate loads the files, or returns an error if they are invalid.
func NewCertificate(files CertificateFiles, log zerolog.Logger) (*Certificate, error) {
	c := &Certificate{files: files, log: log}
	stamps := c.stamps()
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("admin certificate: %w", err)
	}
	c.pair, c.loaded, c.looked = &pair, stamps, time.Now()
	return c, nil
}

// stamps leaves the stamp of a file zero if stat fails. Loading the file reports the error.
func (c *Certificate) stamps() (stamps fileStamps) {
	for i, name := range []string{c.files.CertFile, c.files.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			stamps[i].changed, stamps[i].size = info.ModTime(), info.Size()
		}
	}
	return stamps
}

// get is tls.Config.GetCertificate.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateCheckInterval {
		c.looked = time.Now()
		c.renew()
	}
	return c.pair, nil
}

// renew loads the files if they changed. The stamps are taken before the files are read, so that a
// change during the read causes another load. Certificate and key rarely change at the same time,
// so renew retries a mismatched pair at the next check.
func (c *Certificate) renew() {
	stamps := c.stamps()
	if stamps == c.loaded {
		return
	}
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		if stamps != c.rejected {
			c.log.Error().Err(err).Str("cert_file", c.files.CertFile).
				Msg("the changed certificate can't be used, going on with the old one")
		}
		c.rejected = stamps
		return
	}
	c.pair, c.loaded = &pair, stamps
	c.log.Info().Str("cert_file", c.files.CertFile).Time("not_after", pair.Leaf.NotAfter).
		Msg("the changed certificate is in use")
}

// Config returns the configuration of a server that uses the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
