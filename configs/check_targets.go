package configs

import (
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/egress"
)

// builtinHandlers are the handlers that Disabled may name.
const builtinHandlers = "sql, http, command"

// checkHandlers checks handlers, and sets the rules for the targets of jobs and webhooks.
func (c *checker) checkHandlers() {
	for i, name := range c.config.Handlers.Disabled {
		at := itemPath("handlers.disabled", i)
		if c.sound(at) && !slices.Contains(strings.Split(builtinHandlers, ", "), name) {
			c.fail(at, "found %s, expected one of %s", c.foundAt(at), builtinHandlers)
		}
	}
	const path = "handlers.http"
	targets := c.config.Handlers.HTTP
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"allow", targets.Allow}, {"deny", targets.Deny}} {
		for i, text := range list.patterns {
			at := itemPath(keyPath(path, list.key), i)
			if err := egress.ParsePattern(text); err != nil && c.sound(at) {
				c.fail(at, "found %s, %v", c.foundAt(at), err)
			}
		}
	}
	c.setTargets()
}

// setTargets sets the rules, unless they have a mistake, which is reported.
func (c *checker) setTargets() {
	if rules, err := egress.NewRules(c.config.Handlers.HTTP.Allow,
		c.config.Handlers.HTTP.Deny); err == nil {
		c.targets = rules
	}
}

// checkTarget reports a URL whose host is refused, if that does not depend on its address. It does
// not quote a host from a secret or a variable.
func (c *checker) checkTarget(text, path string) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return // reported elsewhere
	}
	err = c.targets.CheckHost(u.Hostname())
	switch {
	case err == nil:
	case c.near(path).value.expanded || strings.HasPrefix(path, "webhooks"):
		c.fail(path, "found a host (it is not shown) that handlers.http refuses, or that is "+
			"link-local")
	default:
		c.fail(path, "%v", err)
	}
}
