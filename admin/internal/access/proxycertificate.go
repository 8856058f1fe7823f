package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkCertificate returns why the client certificate of a connection does not prove that the proxy
// has opened it, or nil. It checks each request, because a reload can replace the proxy, and
// certificates expire, while connections are open.
func (p *Proxy) checkCertificate(connection *tls.ConnectionState) error {
	if p.ClientCAs == nil {
		return nil
	}
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return errors.New("the connection has no client certificate")
	}
	certificate := connection.PeerCertificates[0]
	intermediates := x509.NewCertPool()
	for _, c := range connection.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: p.ClientCAs,
		Intermediates: intermediates,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("its client certificate is not accepted: %w", err)
	}
	if len(p.ClientNames) > 0 && !slices.ContainsFunc(p.ClientNames, func(name string) bool {
		return isNameOf(certificate, name)
	}) {
		return errors.New("its client certificate has none of the allowed names")
	}
	return nil
}

// isNameOf compares exactly: a wildcard in a certificate is not a name.
func isNameOf(certificate *x509.Certificate, name string) bool {
	return strings.EqualFold(certificate.Subject.CommonName, name) ||
		slices.ContainsFunc(certificate.DNSNames, func(n string) bool {
			return strings.EqualFold(n, name)
		})
}

// WithClientCertificates returns the configuration of a server that asks the trusted proxy for a
// client certificate. It asks no other address, because browsers would ask people to choose one. A
// handshake without a valid certificate succeeds: Proxy.checkCertificate decides about requests.
func (g *Guard) WithClientCertificates(config *tls.Config) *tls.Config {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"} // net/http does not set it in asking
	asking := config.Clone()
	asking.ClientAuth = tls.RequestClientCert
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		proxy := g.rules().proxy
		if !proxy.trusts(parsePeer(hello.Conn.RemoteAddr().String())) || proxy.ClientCAs == nil {
			return nil, nil
		}
		return asking, nil
	}
	return config
}
