package configs

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

func (c *checker) checkAdmin() {
	a := c.config.Admin
	if c.sound("admin.listen") && a.Listen != "" {
		switch {
		case !isAddress(a.Listen, 0):
			c.fail("admin.listen", "found %s, expected host:port, or \"\" for no page", c.foundAt("admin.listen"))
		case !isLoopback(a.Listen) && len(a.Users) == 0 && c.sound("admin.users"):
			c.fail("admin.listen", "found %s without admin.users, expected an address on loopback such as 127.0.0.1:8080, or users", c.foundAt("admin.listen"))
		}
	}
	seen := map[string]bool{}
	for i, user := range a.Users {
		path := itemPath("admin.users", i)
		if c.near(path).value.kind != kindMapping {
			continue
		}
		c.checkUser(user, path, seen[user.Name])
		seen[user.Name] = true
	}
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *checker) checkUser(u User, path string, twice bool) {
	name := keyPath(path, "name")
	switch {
	case !c.sound(name):
	case !isName(u.Name) || strings.Contains(u.Name, ":"):
		c.fail(name, "found %s, expected %s and without a colon", c.foundAt(name), nameWords)
	case twice:
		c.fail(name, "found %s a second time, expected each user once", c.foundAt(name))
	}
	plain, file := keyPath(path, "password_hash"), keyPath(path, "password_hash_file")
	if hash := c.firstGiven(plain, file); c.sound(plain) && c.sound(file) && !isBcrypt(u.PasswordHash.Reveal()) {
		found := "nothing"
		if c.given(hash) {
			found = "something else"
		}
		c.fail(hash, "found %s, expected a bcrypt hash: 60 characters that begin with $2", found)
	}
}

func isBcrypt(hash string) bool {
	const length = 60
	return len(hash) == length && (strings.HasPrefix(hash, "$2a$") || strings.HasPrefix(hash, "$2b$") || strings.HasPrefix(hash, "$2y$"))
}

// isAddress reports whether s is host:port with a port from lowest on.
func isAddress(s string, lowest uint64) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '/' }) {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number >= lowest && (host != "" || lowest == 0)
}
