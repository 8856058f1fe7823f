package admin

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// certificateCheckInterval is how often the files are looked at, at most: at the first
// handshake after it.
const certificateCheckInterval = time.Second

// certificate is the server's, as the files have it. New files that can't be
// used leave the old certificate in place. It may be used concurrently.
type certificate struct {
	files Certificate
	log   zerolog.Logger

	mu       sync.Mutex
	pair     *tls.Certificate
	looked   time.Time
	loaded   fileStamps // of pair
	rejected fileStamps // of the last files that could not be used
}

// fileStamps tell two states of the files apart.
type fileStamps [2]struct {
	changed time.Time
	size    int64
}

// newCertificate loads the files; one that can't be used is an error at start.
func newCertificate(files Certificate, log zerolog.Logger) (*certificate, error) {
	c := &certificate{files: files, log: log}
	stamps := c.stamps()
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("admin certificate: %w", err)
	}
	c.pair, c.loaded, c.looked = &pair, stamps, time.Now()
	return c, nil
}

// stamps leaves what can't be looked at zero; loading it will say why.
func (c *certificate) stamps() (stamps fileStamps) {
	for i, name := range []string{c.files.CertFile, c.files.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			stamps[i].changed, stamps[i].size = info.ModTime(), info.Size()
		}
	}
	return stamps
}

// get is tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= certificateCheckInterval {
		c.looked = time.Now()
		c.renew()
	}
	return c.pair, nil
}

// renew takes files that changed. The stamps are from before the reading, so
// that what changes during it is read again. The two files seldom change at
// the same instant: what does not fit yet is tried again at the next look.
func (c *certificate) renew() {
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

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
