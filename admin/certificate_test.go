package admin

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// pair is a certificate for loopback and its key, in PEM.
type pair struct{ certificate, key []byte }

func newPair(t *testing.T, serial int64) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// pairFiles are a server's files, whose times a test sets: writes within a few
// milliseconds would have the same.
type pairFiles struct {
	Certificate
	writes int
}

func newPairFiles(t *testing.T, p pair) *pairFiles {
	t.Helper()
	folder := t.TempDir()
	files := &pairFiles{Certificate: Certificate{filepath.Join(folder, "page.crt"),
		filepath.Join(folder, "page.key")}}
	files.write(t, files.CertFile, p.certificate)
	files.write(t, files.KeyFile, p.key)
	return files
}

func (f *pairFiles) write(t *testing.T, name string, content []byte) {
	t.Helper()
	f.writes++
	at := time.Date(2026, 1, 1, 0, 0, f.writes, 0, time.UTC)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func serialOf(t *testing.T, c *certificate) int64 {
	t.Helper()
	got, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Leaf.SerialNumber.Int64()
}

func TestCertificateIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		first, second, third := newPair(t, 1), newPair(t, 2), newPair(t, 3)
		files := newPairFiles(t, first)
		c, err := newCertificate(files.Certificate, zerolog.New(&logged))
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
		files.write(t, files.CertFile, second.certificate)
		expect("while only one file is new", 1)
		expect("and later", 1)
		if got := strings.Count(logged.String(), "can't be used"); got != 1 {
			t.Errorf("the trouble is logged %d times, want once: %s", got, &logged)
		}
		files.write(t, files.KeyFile, second.key)
		if got := serialOf(t, c); got != 1 {
			t.Errorf("files are looked at for each handshake")
		}
		expect("when both are new", 2)
		files.write(t, files.CertFile, []byte("-----BEGIN hunter2"))
		expect("with a broken file", 2)
		if err := os.Remove(files.KeyFile); err != nil {
			t.Fatal(err)
		}
		expect("without a file", 2)
		files.write(t, files.CertFile, third.certificate)
		files.write(t, files.KeyFile, third.key)
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

func TestBrokenCertificateIsRefusedAtStart(t *testing.T) {
	o := calm()
	o.Certificate = &Certificate{filepath.Join(t.TempDir(), "none.crt"), "none.key"}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "none.crt") {
		t.Errorf("error is %v", err)
	}
}

func TestServesTLS(t *testing.T) {
	first := newPair(t, 7)
	o := guardedOptions(t)
	o.Listen, o.Certificate = "127.0.0.1:0", &newPairFiles(t, first).Certificate
	address := serve(t, newServer(t, o))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.certificate)
	for version, taken := range map[uint16]bool{tls.VersionTLS13: true, tls.VersionTLS12: true,
		tls.VersionTLS11: false} {
		connection, err := tls.Dial("tcp", address,
			&tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		if (err == nil) != taken {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			_ = connection.Close()
		}
	}
	// On a connection with TLS the cookie has the prefix, whatever the name.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		DisableKeepAlives: true}
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
	response, err := client.PostForm("https://"+address+"/login",
		map[string][]string{"user": {"anna"}, "password": {"correct horse"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if cookies := response.Cookies(); len(cookies) != 1 || cookies[0].Name != secureCookie ||
		!cookies[0].Secure {
		t.Errorf("%s, cookies %v", response.Status, cookies)
	}
	if plain, err := http.Get("http://" + address + "/healthz"); err == nil {
		_ = plain.Body.Close()
		if plain.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP on a port with TLS: %s", plain.Status)
		}
	}
}
