package configs

import (
	"crypto/tls"
	"crypto/x509"
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
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/proxyheader"
	"github.com/holdfast-dev/holdfast/internal/runes"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

func (c *checker) checkAdmin() {
	a := &c.config.Admin
	c.checkListen(a)
	c.checkPrefix(a.Prefix)
	c.checkHosts(a.Hosts)
	c.checkServerTLS(a.TLS)
	roles := c.checkRoles(a.Roles)
	people := slices.DeleteFunc(slices.Clone(roles), func(role string) bool {
		return role == permission.MetricsReader // for tokens
	})
	names := map[string]string{}
	for i, user := range a.Users {
		if path := itemPath("admin.users", i); c.near(path).value.kind == kindMapping {
			c.checkUser(user, path, names)
			c.checkRoleName(user.Role, keyPath(path, "role"), people)
		}
	}
	hashes := map[string]bool{}
	for i, token := range a.Tokens {
		if path := itemPath("admin.tokens", i); c.near(path).value.kind == kindMapping {
			c.checkToken(token, path, names, hashes)
			c.checkRoleName(token.Role, keyPath(path, "role"), roles)
			c.checkPermissions(token.Permissions, keyPath(path, "permissions"))
			c.checkLimits(path, "token", limit{"permissions", token.Permissions},
				limit{"groups", token.Groups}, limit{"jobs", token.Jobs},
				limit{"resources", token.Resources})
		}
	}
	c.checkTrustedProxy(a.TrustedProxy, people, names)
	c.checkOIDC(a, people)
	c.checkCookieKeys(a.CookieKeys)
}

// limit is a list of a role or a token that limits it if it has entries.
type limit struct {
	key     string
	entries []string
}

// checkLimits refuses empty lists in a file. They limit nothing, although they look as if they did.
// In a configuration made by Go code, an empty list is one that was not set.
func (c *checker) checkLimits(path, limited string, lists ...limit) {
	for _, list := range lists {
		if at := keyPath(path, list.key); c.given(at) && c.sound(at) && len(list.entries) == 0 {
			c.fail(at, "found an empty list, which does not limit the %s, expected at least one "+
				"entry, or no key", limited)
		}
	}
}

func (c *checker) checkListen(a *Admin) {
	const path = "admin.listen"
	if !c.sound(path) || a.Listen == "" {
		return
	}
	known := len(a.Users) > 0 || len(a.Tokens) > 0 ||
		a.TrustedProxy != nil && a.TrustedProxy.UserHeader != "" || a.OIDC != nil
	switch {
	case !isAddress(a.Listen, 0):
		c.fail(path, "found %s, expected host:port, or \"\" for no page", c.foundAt(path))
	case !isLoopback(a.Listen) && !known && c.sound("admin.users") && c.sound("admin.tokens") &&
		c.sound("admin.trusted_proxy") && c.sound("admin.oidc"):
		c.fail(path, "found %s without admin.users, expected an address on loopback such as "+
			"127.0.0.1:8080, or users", c.foundAt(path))
	}
}

// adminPrefix matches a path of segments without escapes. Dots alone are no segment.
var adminPrefix = regexp.MustCompile(`^(/\.*[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?$`)

func (c *checker) checkPrefix(prefix string) {
	const path = "admin.prefix"
	if c.sound(path) && !adminPrefix.MatchString(prefix) {
		c.fail(path, "found %s, expected a path such as /holdfast/", c.foundAt(path))
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

func (c *checker) checkUser(u User, path string, names map[string]string) {
	c.checkActorName(u.Name, keyPath(path, "name"), "user", names)
	plain, file := keyPath(path, "password_hash"), keyPath(path, "password_hash_file")
	if !c.sound(plain) || !c.sound(file) {
		return
	}
	if _, err := password.Parse(u.PasswordHash.Reveal()); err != nil {
		c.fail(c.firstGiven(plain, file), "found %s, %v", c.hidden(plain, file), err)
	}
}

// checkActorName checks the name of a user, a token or a person of the trusted proxy. Names has the
// kinds of the actors that were checked before, by folded name. Actors of one name would be one
// actor in the audit log.
func (c *checker) checkActorName(name, at, kind string, names map[string]string) {
	folded := runes.Fold(name)
	switch other, taken := names[folded]; {
	case !c.sound(at):
		return
	case strings.ContainsFunc(name, runes.IsInvisible):
		c.fail(at, "found %s with an invisible character, expected a name that looks like no other",
			c.foundAt(at))
	case !isName(name):
		c.fail(at, "found %s, expected %s", c.foundAt(at), nameWords)
	case taken && other == kind:
		c.fail(at, "found %s a second time, expected each %s once", c.foundAt(at), kind)
	case taken:
		c.fail(at, "found %s, which is the name of a %s too, expected another name: they would "+
			"be one actor in the audit log", c.foundAt(at), other)
	default:
		names[folded] = kind
	}
}

func (c *checker) checkToken(t Token, path string, names map[string]string,
	hashes map[string]bool) {
	c.checkActorName(t.Name, keyPath(path, "name"), "token", names)
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

func (c *checker) checkTrustedProxy(p *TrustedProxy, roles []string, names map[string]string) {
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
	c.checkRoleName(p.Role, keyPath(path, "role"), roles)
	header := keyPath(path, "user_header")
	c.checkProxyHeader(p.UserHeader, header, "X-Forwarded-User")
	c.checkProxySecret(p, path)
	c.checkProxyCertificate(p, path)
	if at := keyPath(path, "operators"); len(p.Operators) > 0 && p.UserHeader == "" &&
		c.sound(header) && c.sound(at) {
		c.failKey(at, "found operators without user_header, expected the header that names them")
	}
	for i, name := range p.Operators {
		c.checkActorName(name, itemPath(keyPath(path, "operators"), i),
			"operator of the trusted proxy", names)
	}
}

func (c *checker) checkProxyHeader(name, at, example string) {
	if c.sound(at) && name != "" && !proxyheader.IsName(name) {
		c.fail(at, "found %s, expected a header that the proxy sets and clients do not, such as %s",
			c.foundAt(at), example)
	}
}

func (c *checker) checkProxySecret(p *TrustedProxy, path string) {
	header := keyPath(path, "secret_header")
	plain, file := keyPath(path, "secret"), keyPath(path, "secret_file")
	c.checkProxyHeader(p.SecretHeader, header, "X-Proxy-Secret")
	if !c.sound(header) || !c.sound(plain) || !c.sound(file) {
		return
	}
	text := p.Secret.Reveal()
	switch at := c.firstGiven(plain, file); {
	case p.SecretHeader == "" && (c.given(plain) || c.given(file)):
		c.failKey(at, "found a secret without secret_header, expected the header that has it")
	case p.SecretHeader == "":
	case strings.EqualFold(p.SecretHeader, p.UserHeader):
		c.fail(header, "found %s, which names the user, expected a header of its own",
			c.foundAt(header))
	case len(text) < proxyheader.MinSecret:
		c.fail(at, "found %s, expected a random secret of at least %d, such as "+
			"`openssl rand -base64 48` prints", plural.Of(len(text), "byte", "bytes"),
			proxyheader.MinSecret)
	case !proxyheader.IsValue(text):
		c.fail(at, "found a secret with other bytes than printable ASCII without spaces, expected "+
			"one that a header can have")
	}
}

func (c *checker) checkProxyCertificate(p *TrustedProxy, path string) {
	plain, file, names := keyPath(path, "client_ca"), keyPath(path, "client_ca_file"),
		keyPath(path, "client_names")
	if !c.sound(plain) || !c.sound(file) || !c.sound(names) || !c.sound("admin.tls") {
		return
	}
	at := c.firstGiven(plain, file)
	switch {
	case p.ClientCA.IsZero() && len(p.ClientNames) > 0:
		c.failKey(names, "found names without client_ca, expected the certificate of the "+
			"authority that signs the proxy's certificate")
	case p.ClientCA.IsZero():
	case !x509.NewCertPool().AppendCertsFromPEM([]byte(p.ClientCA.Reveal())):
		c.fail(at, "found no certificate, expected at least one in PEM")
	case c.config.Admin.TLS == nil:
		c.failKey(at, "found client certificates without admin.tls, expected TLS at the replica")
	}
	for i, name := range p.ClientNames {
		if item := itemPath(names, i); c.sound(item) && !isName(name) {
			c.fail(item, "found %s, expected a common name or a DNS name of the proxy's "+
				"certificate", c.foundAt(item))
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
			c.fail(at, "found %s, expected a random secret of at least %d, such as "+
				"`openssl rand -base64 48` prints", plural.Of(len(text), "byte", "bytes"), least)
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
		return runes.IsControl(r) || unicode.IsSpace(r) || r == '/'
	}) {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number >= lowest && (host != "" || lowest == 0)
}
