package accesstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a certificate for loopback and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// NewPair makes a self-signed certificate.
func NewPair(t *testing.T, serial int64) Pair {
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
	return Pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// PairFiles are a server's certificate and key. Write sets their times, because writes within a few
// milliseconds could have the same time.
type PairFiles struct {
	CertFile, KeyFile string

	writes int
}

// NewPairFiles writes a certificate and its key.
func NewPairFiles(t *testing.T, p Pair) *PairFiles {
	t.Helper()
	folder := t.TempDir()
	files := &PairFiles{CertFile: filepath.Join(folder, "page.crt"),
		KeyFile: filepath.Join(folder, "page.key")}
	files.Write(t, files.CertFile, p.Certificate)
	files.Write(t, files.KeyFile, p.Key)
	return files
}

// Write replaces a file, whose time is then a second later than that of the last write.
func (f *PairFiles) Write(t *testing.T, name string, content []byte) {
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
