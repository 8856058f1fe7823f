package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs the certificates of one test. Their files are in PEM, and servers may read them.
type Authority struct {
	File string // its own certificate
	Pool *x509.CertPool

	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

// NewAuthority returns a new authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{Pool: x509.NewCertPool()}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(24 * time.Hour)}
	a.File, _ = a.issue(t, "authority", template)
	a.Pool.AddCert(a.certificate)
	return a
}

// Issue writes a certificate for hosts (names or addresses) and its key, and returns both files.
// Servers and clients may use them.
func (a *Authority) Issue(t testing.TB, hosts ...string) (certificate, key string) {
	t.Helper()
	return a.IssueFor(t, time.Now().Add(24*time.Hour), []x509.ExtKeyUsage{
		x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, hosts...)
}

// IssueFor is Issue with the end of the certificate and the uses that it allows.
func (a *Authority) IssueFor(t testing.TB, until time.Time, uses []x509.ExtKeyUsage,
	hosts ...string) (certificate, key string) {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: uses, NotAfter: until,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(t, hosts[0], template)
}

// IssueBoth is Issue with the certificate and the key in one file, as HAProxy expects them.
func (a *Authority) IssueBoth(t testing.TB, hosts ...string) (file string) {
	t.Helper()
	certificate, key := a.Issue(t, hosts...)
	var both []byte
	for _, name := range []string{certificate, key} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, text...)
	}
	return PublicFile(t, "both.pem", both)
}

// issue signs with the authority's key, or with the new key if the authority has none yet.
func (a *Authority) issue(t testing.TB, name string,
	template *x509.Certificate) (certificate, key string) {
	t.Helper()
	fresh, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	if a.key == nil {
		a.key, a.certificate = fresh, template
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &fresh.PublicKey,
		a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate == template {
		if a.certificate, err = x509.ParseCertificate(signed); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(fresh)
	if err != nil {
		t.Fatal(err)
	}
	return PublicFile(t, name+".pem", encodePEM("CERTIFICATE", signed)), PublicFile(t, name+".key",
		encodePEM("PRIVATE KEY", encoded))
}

func encodePEM(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}

// PublicFile writes a file that servers of other users may read, and returns its path.
func PublicFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "public-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, name)
	if err := errors.Join(os.WriteFile(path, content, 0o644), os.Chmod(path, 0o644),
		os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
