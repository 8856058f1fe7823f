package admin

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

func TestBrokenCertificateIsRefusedAtStart(t *testing.T) {
	o := calm()
	o.Certificate = &Certificate{CertFile: filepath.Join(t.TempDir(), "none.crt"),
		KeyFile: "none.key"}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "none.crt") {
		t.Errorf("error is %v", err)
	}
}

func TestServesTLS(t *testing.T) {
	first := accesstest.NewPair(t, 7)
	o := guardedOptions(t)
	files := accesstest.NewPairFiles(t, first)
	o.Listen, o.Certificate = "127.0.0.1:0",
		&Certificate{CertFile: files.CertFile, KeyFile: files.KeyFile}
	address := serve(t, newServer(t, o))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.Certificate)
	for version, taken := range map[uint16]bool{tls.VersionTLS13: true, tls.VersionTLS12: true,
		tls.VersionTLS11: false} {
		connection, err := tls.Dial("tcp", address,
			&tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		if (err == nil) != taken {
			t.Errorf("%s: got error %v, want the version accepted: %t", tls.VersionName(version),
				err, taken)
		}
		if err == nil {
			_ = connection.Close()
		}
	}
	// On a connection with TLS the cookie has the prefix, whatever the host name is.
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
	if cookies := response.Cookies(); len(cookies) != 2 || cookies[0].Name != "__Host-holdfast" ||
		!cookies[0].Secure || !cookies[1].Secure {
		t.Errorf("%s, cookies %v", response.Status, cookies)
	}
	if plain, err := http.Get("http://" + address + "/healthz"); err == nil {
		_ = plain.Body.Close()
		if plain.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP on a port with TLS: %s", plain.Status)
		}
	}
}
