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
			c.foundURL(at))
	}
	if at := keyPath(path, "client_id"); c.sound(at) && o.ClientID == "" {
		c.fail(at, "found %s, expected the client id that the provider gave", c.foundAt(at))
	}
	plain, file := keyPath(path, "client_secret"), keyPath(path, "client_secret_file")
	if c.sound(plain) && c.sound(file) && o.ClientSecret.Reveal() == "" {
		c.fail(c.firstGiven(plain, file), "found nothing, expected the secret of the client")
	}
	c.checkRedirectURL(a, keyPath(path, "redirect_url"))
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

// checkRedirectURL checks the path and the host of the URL, as far as the keys that they depend on
// have no mistakes.
func (c *checker) checkRedirectURL(a *Admin, at string) {
	callback := strings.TrimSuffix(a.Prefix, "/") + oidcCallback
	redirect, err := url.Parse(a.OIDC.RedirectURL)
	switch {
	case !c.sound(at):
	case c.sound("admin.prefix") &&
		(!isSecureURL(a.OIDC.RedirectURL) || redirect.Path != callback):
		c.fail(at, "found %s, expected the https URL of the page with the path %s", c.foundURL(at),
			callback)
	case err == nil && c.sound("admin.hosts") && !a.showsHost(redirect.Hostname()):
		c.fail(at, "found %s, expected a host that admin.hosts has, because the page is shown "+
			"under no other", c.foundURL(at))
	}
}

// showsHost reports whether the page answers requests with the host.
func (a *Admin) showsHost(host string) bool {
	host = strings.ToLower(host)
	return isLoopback(net.JoinHostPort(host, "0")) || net.ParseIP(host) != nil ||
		slices.Contains(a.Hosts, host)
}

// isSecureURL reports whether a URL uses https, or http to this machine.
func isSecureURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()+":0"))
}
