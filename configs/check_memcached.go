package configs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

const memcachedPath = "locking.memcached"

func (c *checker) checkMemcached(m *Memcached) {
	c.checkServers(m.Servers)
	c.checkPassword(m)
	if m.TLS != nil && c.near(memcachedPath+".tls").value.kind == kindMapping {
		c.checkTLS(m.TLS, m.Servers)
	}
}

func (c *checker) checkServers(servers []string) {
	const path = memcachedPath + ".servers"
	if len(servers) == 0 && c.sound(path) {
		c.fail(path, "found no servers, expected at least one host:port")
	}
	seen := map[string]bool{}
	for i, server := range servers {
		at := itemPath(path, i)
		if !c.sound(at) {
			continue
		}
		if !strings.HasPrefix(server, "/") && !isAddress(server, 1) {
			c.fail(at, "found %s, expected host:port or the absolute path of a socket",
				c.foundAt(at))
		} else if seen[server] {
			c.fail(at, "found %s a second time, expected each server once", c.foundAt(at))
		}
		seen[server] = true
	}
}

// checkPassword refuses passwords that memcached's file of users can't hold. It never quotes the
// password.
func (c *checker) checkPassword(m *Memcached) {
	const longest = 250 // bytes; a line of the file has 255
	user := memcachedPath + ".username"
	plain, file := memcachedPath+".password", memcachedPath+".password_file"
	if !c.sound(user) || !c.sound(plain) || !c.sound(file) {
		return
	}
	password := m.Password.Reveal()
	at := c.firstGiven(plain, file, user)
	switch {
	case m.Username == "" && password == "":
	case m.Username == "":
		c.fail(at, "found a password without a username, expected both or neither")
	case password == "":
		c.fail(at, "found a username without a password, expected both or neither")
	case strings.Contains(m.Username, ":") || strings.ContainsFunc(m.Username, isBlank):
		c.fail(user, "found %s, expected a name without colons, spaces and control characters",
			c.foundAt(user))
	case strings.ContainsFunc(password, isBlank):
		c.fail(at, "found a password with a space or a control character, expected one without")
	case len(m.Username)+len(password) > longest:
		c.fail(at, "found a username and a password of %d bytes together, expected at most %d",
			len(m.Username)+len(password), longest)
	}
}

func isBlank(r rune) bool { return unicode.IsSpace(r) || runes.IsControl(r) }

func (c *checker) checkTLS(t *TLS, servers []string) {
	const path = memcachedPath + ".tls"
	for _, key := range []string{"ca", "ca_file", "cert", "cert_file", "key", "key_file",
		"server_name"} {
		if !c.sound(path + "." + key) {
			return
		}
	}
	var wrong *tlsError
	if _, err := t.Config(); errors.As(err, &wrong) {
		at := path + "." + wrong.key
		c.fail(c.firstGiven(at, at+"_file", path+".cert_file", path+".key_file"), "%s",
			wrong.message)
	}
	if t.ServerName == "" {
		for i, server := range servers {
			if strings.HasPrefix(server, "/") {
				c.fail(itemPath(memcachedPath+".servers", i), "found the path of a socket with "+
					"TLS, expected tls.server_name, the name that the server proves")
			}
		}
	}
}

// tlsError names the key with the mistake.
type tlsError struct{ key, message string }

// Error returns the message.
func (e *tlsError) Error() string { return e.key + ": " + e.message }

// Config returns the TLS configuration of a client. It returns no error if Load or Parse accepted
// t.
func (t *TLS) Config() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if !t.CA.IsZero() {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA.Reveal())) {
			return nil, &tlsError{"ca", "found no certificate, expected at least one in PEM"}
		}
	}
	switch {
	case t.Cert.IsZero() && t.Key.IsZero():
		return config, nil
	case t.Cert.IsZero():
		return nil, &tlsError{"key", "found a key without a certificate, expected both or neither"}
	case t.Key.IsZero():
		return nil, &tlsError{"cert",
			"found a certificate without its key, expected both or neither"}
	}
	pair, err := tls.X509KeyPair([]byte(t.Cert.Reveal()), []byte(t.Key.Reveal()))
	if err != nil { // the error quotes neither
		return nil, &tlsError{"cert",
			"found a certificate and a key that are no pair, expected both in PEM: " + err.Error()}
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
