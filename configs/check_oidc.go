package configs

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// oidcCallback is the path of the redirect URL, under the prefix of the page.
const oidcCallback = "/login/oidc/callback"

func (c *checker) checkOIDC(a *Admin, roles []string) {
	const path = "admin.oidc"
	o := a.OIDC
	if o == nil || c.near(path).value.kind != kindMapping {
		return
	}
	if at := keyPath(path, "issuer"); c.sound(at) && !isSecureURL(o.Issuer) {
		c.fail(at, "found %s, expected the https URL of the provider, without user and fragment",
			c.foundAt(at))
	}
	if at := keyPath(path, "client_id"); c.sound(at) && o.ClientID == "" {
		c.fail(at, "found %s, expected the client id that the provider gave", c.foundAt(at))
	}
	plain, file := keyPath(path, "client_secret"), keyPath(path, "client_secret_file")
	if c.sound(plain) && c.sound(file) && o.ClientSecret.Reveal() == "" {
		c.fail(c.firstGiven(plain, file), "found nothing, expected the secret of the client")
	}
	callback := strings.TrimSuffix(a.Prefix, "/") + oidcCallback
	redirect, err := url.Parse(o.RedirectURL)
	if at := keyPath(path, "redirect_url"); c.sound(at) && c.sound("admin.prefix") &&
		(!isSecureURL(o.RedirectURL) || err != nil || redirect.Path != callback) {
		c.fail(at, "found %s, expected the https URL of the page with the path %s", c.foundAt(at),
			callback)
	} else if host := strings.ToLower(redirect.Hostname()); c.sound(at) &&
		c.sound("admin.hosts") && !isLoopback(net.JoinHostPort(host, "0")) &&
		!slices.Contains(a.Hosts, host) && net.ParseIP(host) == nil {
		c.fail(at, "found %s, expected a host that admin.hosts has, because the page is shown "+
			"under no other", c.foundAt(at))
	}
	for i, domain := range o.Domains {
		at := itemPath(keyPath(path, "domains"), i)
		o.Domains[i] = strings.ToLower(domain)
		if c.sound(at) && domain != "*" && !hostName.MatchString(o.Domains[i]) {
			c.fail(at, "found %s, expected a domain such as example.com", c.foundAt(at))
		}
	}
	c.checkRoleName(o.Role, keyPath(path, "role"), append([]string{NoRole}, roles...))
	for i, group := range o.Groups {
		item := itemPath(keyPath(path, "groups"), i)
		c.checkRoleName(group.Role, keyPath(item, "role"), roles)
		at := keyPath(item, "name")
		if c.sound(at) && group.Name == "" {
			c.fail(at, "found %s, expected the name of a group", c.foundAt(at))
		}
	}
	if at := keyPath(path, "groups"); c.sound(at) && c.sound(keyPath(path, "role")) &&
		o.Role == NoRole && len(o.Groups) == 0 {
		c.fail(path, "found neither groups nor a role, expected one, or nobody may sign in")
	}
	if c.sound(keyPath(path, "role")) && c.sound(keyPath(path, "domains")) && o.Role != NoRole &&
		len(o.Domains) == 0 {
		c.fail(path, "found the role %s for everybody who has an account at the provider, "+
			"expected domains, or \"*\" among them for all", o.Role)
	}
	if c.sound("admin.cookie_keys") && len(a.CookieKeys) == 0 {
		c.fail(path, "found no admin.cookie_keys, expected a key that signs the cookies")
	}
}

// isSecureURL reports whether a URL uses https, or http to this machine.
func isSecureURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()+":0"))
}
