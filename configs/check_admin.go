package configs

import (
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/admin/password"
)

func (c *checker) checkAdmin() {
	a := &c.config.Admin
	c.checkListen(a)
	c.checkHosts(a.Hosts)
	c.checkServerTLS(a.TLS)
	seen := map[string]bool{}
	for i, user := range a.Users {
		if path := itemPath("admin.users", i); c.near(path).value.kind == kindMapping {
			c.checkUser(user, path, seen)
		}
	}
	seen, hashes := map[string]bool{}, map[string]bool{}
	for i, token := range a.Tokens {
		if path := itemPath("admin.tokens", i); c.near(path).value.kind == kindMapping {
			c.checkToken(token, path, seen, hashes)
		}
	}
	c.checkTrustedProxy(a.TrustedProxy)
	c.checkCookieKeys(a.CookieKeys)
}

func (c *checker) checkListen(a *Admin) {
	const path = "admin.listen"
	if !c.sound(path) || a.Listen == "" {
		return
	}
	known := len(a.Users) > 0 || len(a.Tokens) > 0 ||
		a.TrustedProxy != nil && a.TrustedProxy.UserHeader != ""
	switch {
	case !isAddress(a.Listen, 0):
		c.fail(path, "found %s, expected host:port, or \"\" for no page", c.foundAt(path))
	case !isLoopback(a.Listen) && !known && c.sound("admin.users") && c.sound("admin.tokens") &&
		c.sound("admin.trusted_proxy"):
		c.fail(path, "found %s without admin.users, expected an address on loopback such as "+
			"127.0.0.1:8080, or users", c.foundAt(path))
	}
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostName matches a Host header without port.
var hostName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?$`)

func (c *checker) checkHosts(hosts []string) {
	for i, host := range hosts {
		path := itemPath("admin.hosts", i)
		lower := strings.ToLower(host)
		_, err := netip.ParseAddr(host)
		switch {
		case !c.sound(path):
		case err != nil && (!hostName.MatchString(lower) || strings.Contains(lower, "..")):
			c.fail(path, "found %s, expected a host's name such as scheduler.example.com, "+
				"without scheme, port or *", c.foundAt(path))
		default:
			hosts[i] = lower
		}
	}
}

// checkServerTLS resolves the paths relative to the configuration and loads the files once, so that
// mistakes are found before the page starts.
func (c *checker) checkServerTLS(files *ServerTLS) {
	const path = "admin.tls"
	if files == nil || c.near(path).value.kind != kindMapping {
		return
	}
	whole := true
	for _, file := range []struct {
		key  string
		name *string
	}{{"cert_file", &files.CertFile}, {"key_file", &files.KeyFile}} {
		at := keyPath(path, file.key)
		switch {
		case !c.sound(at):
			whole = false
		case *file.name == "":
			whole = false
			c.fail(at, "found %s, expected the name of a file in PEM", c.foundAt(at))
		case !filepath.IsAbs(*file.name):
			*file.name = filepath.Join(filepath.Dir(c.file), *file.name)
		}
	}
	if !whole {
		return
	}
	for _, file := range []struct{ key, name string }{{"cert_file", files.CertFile},
		{"key_file", files.KeyFile}} {
		if _, problem := readSecret(file.name); problem != "" {
			at := keyPath(path, file.key)
			c.fail(at, "found %s: %s, expected a file in PEM", c.foundAt(at), problem)
			whole = false
		}
	}
	if !whole {
		return
	}
	if _, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile); err != nil {
		c.fail(path, "found a certificate and a key that can't be used together (%v), expected a "+
			"certificate and its key, both in PEM", err)
	}
}

func (c *checker) checkUser(u User, path string, seen map[string]bool) {
	c.checkAccountName(u.Name, path, "user", seen)
	plain, file := keyPath(path, "password_hash"), keyPath(path, "password_hash_file")
	if !c.sound(plain) || !c.sound(file) {
		return
	}
	if _, err := password.Parse(u.PasswordHash.Reveal()); err != nil {
		c.fail(c.firstGiven(plain, file), "found %s, %v", c.hidden(plain, file), err)
	}
}

func (c *checker) checkAccountName(name, path, kind string, seen map[string]bool) {
	at := keyPath(path, "name")
	switch {
	case !c.sound(at):
	case !isName(name):
		c.fail(at, "found %s, expected %s", c.foundAt(at), nameWords)
	case seen[name]:
		c.fail(at, "found %s a second time, expected each %s once", c.foundAt(at), kind)
	}
	seen[name] = true
}

func (c *checker) checkToken(t Token, path string, seen, hashes map[string]bool) {
	c.checkAccountName(t.Name, path, "token", seen)
	plain, file := keyPath(path, "token_hash"), keyPath(path, "token_hash_file")
	if !c.sound(plain) || !c.sound(file) {
		return
	}
	text := strings.ToLower(t.TokenHash.Reveal())
	sum, err := hex.DecodeString(text)
	const length = 32
	switch at := c.firstGiven(plain, file); {
	case err != nil || len(sum) != length:
		c.fail(at, "found %s, expected the SHA-256 of a token: 64 hexadecimal digits, as "+
			"`scheduler hash-password --token` prints them", c.hidden(plain, file))
	case hashes[text]:
		c.fail(at, "found the hash of a token above, expected each token once")
	}
	hashes[text] = true
}

// hidden describes a secret in a message.
func (c *checker) hidden(plain, file string) string {
	if c.given(plain) || c.given(file) {
		return "something else"
	}
	return "nothing"
}

// headerName matches the header names of RFC 9110.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")

// sentByClients are headers with another meaning, which any client can send.
var sentByClients = []string{"authorization", "cookie", "host", "origin", "referer", "user-agent",
	"x-forwarded-for", "x-forwarded-proto"}

func (c *checker) checkTrustedProxy(p *TrustedProxy) {
	const path = "admin.trusted_proxy"
	if p == nil || c.near(path).value.kind != kindMapping {
		return
	}
	if networks := keyPath(path, "networks"); len(p.Networks) == 0 && c.sound(networks) {
		c.fail(networks, "found no networks, expected those that the proxy asks from, such as "+
			"10.1.0.0/16")
	}
	for i, network := range p.Networks {
		if at := itemPath(keyPath(path, "networks"), i); c.sound(at) && network.Bits() == 0 {
			c.fail(at, "found %s, expected the proxy's own network: this one is everybody",
				c.foundAt(at))
		}
	}
	header := keyPath(path, "user_header")
	if c.sound(header) && p.UserHeader != "" &&
		(!headerName.MatchString(p.UserHeader) ||
			slices.Contains(sentByClients, strings.ToLower(p.UserHeader))) {
		c.fail(header, "found %s, expected a header that the proxy sets and clients do not, such "+
			"as X-Forwarded-User", c.foundAt(header))
	}
	if at := keyPath(path, "operators"); len(p.Operators) > 0 && p.UserHeader == "" &&
		c.sound(header) && c.sound(at) {
		c.failKey(at, "found operators without user_header, expected the header that names them")
	}
	for i, name := range p.Operators {
		if at := itemPath(keyPath(path, "operators"), i); c.sound(at) && !isName(name) {
			c.fail(at, "found %s, expected %s", c.foundAt(at), nameWords)
		}
	}
}

func (c *checker) checkCookieKeys(keys []CookieKey) {
	const least = 32 // bytes; shorter keys weaken HMAC-SHA-256
	seen := map[string]bool{}
	for i, key := range keys {
		path := itemPath("admin.cookie_keys", i)
		plain, file := keyPath(path, "key"), keyPath(path, "key_file")
		if c.near(path).value.kind != kindMapping || !c.sound(plain) || !c.sound(file) {
			continue
		}
		at := c.firstGiven(plain, file)
		text := key.Key.Reveal()
		switch {
		case len(text) < least:
			c.fail(at, "found %d bytes, expected a random secret of at least %d, such as "+
				"`openssl rand -base64 48` prints", len(text), least)
		case seen[text]:
			c.fail(at, "found a key a second time, expected each once")
		}
		seen[text] = true
	}
}

// isAddress reports whether s is host:port with a port of at least lowest.
func isAddress(s string, lowest uint64) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsFunc(host, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || r == '/'
	}) {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number >= lowest && (host != "" || lowest == 0)
}
