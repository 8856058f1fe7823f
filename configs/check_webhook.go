package configs

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/proxyheader"
	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// reservedHeaders are set by the sender of webhooks.
var reservedHeaders = []string{"webhook-id", "webhook-timestamp", "webhook-signature",
	"content-type", "content-length", "host", "user-agent"}

func (c *checker) checkWebhooks() {
	first := map[string]string{}
	for i := range c.config.Webhooks {
		w, path := &c.config.Webhooks[i], itemPath("webhooks", i)
		if c.near(path).value.kind != kindMapping {
			continue
		}
		c.checkWebhookName(w, keyPath(path, "name"), first)
		c.checkWebhookURL(w, path)
		c.checkWebhookSecret(w, path)
		c.checkEvents(w, keyPath(path, "events"))
		c.checkPatterns(w, keyPath(path, "jobs"))
		c.checkHeaders(w.Headers, keyPath(path, "headers"))
	}
}

func (c *checker) checkWebhookName(w *Webhook, path string, first map[string]string) {
	if !c.sound(path) {
		return
	}
	if !c.given(path) || !isName(w.Name) {
		c.fail(path, "found %s, expected %s", c.foundAt(path), nameWords)
		return
	}
	if before, twice := first[w.Name]; twice {
		c.fail(path, "found %s a second time, expected each webhook once; the first is in %s",
			c.foundAt(path), c.whereKey(before))
		return
	}
	first[w.Name] = path
}

// checkWebhookURL does not quote the URL, which may contain a secret.
func (c *checker) checkWebhookURL(w *Webhook, path string) {
	at := c.firstGiven(keyPath(path, "url"), keyPath(path, "url_file"))
	if !c.sound(keyPath(path, "url")) || !c.sound(keyPath(path, "url_file")) {
		return
	}
	if !c.given(at) {
		c.fail(at, "found nothing, expected the URL that is notified")
		return
	}
	parsed, err := url.Parse(w.URL.Reveal())
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" ||
		parsed.Hostname() == "" || parsed.Fragment != "" {
		c.fail(at, "found something else (it is not shown), expected an http:// or https:// URL "+
			"without #")
		return
	}
	c.checkTarget(w.URL.Reveal(), at)
}

func (c *checker) checkWebhookSecret(w *Webhook, path string) {
	at := c.firstGiven(keyPath(path, "secret"), keyPath(path, "secret_file"))
	if !c.sound(keyPath(path, "secret")) || !c.sound(keyPath(path, "secret_file")) {
		return
	}
	const words = "expected whsec_ and 24 to 64 bytes in base64, or a text of 24 bytes or more"
	if !c.given(at) {
		c.fail(at, "found no secret to sign with, %s", words)
		return
	}
	if _, ok := w.Secret.signingKey(); !ok {
		c.fail(at, "found a secret that is too short or no base64 (it is not shown), %s", words)
	}
	old := c.firstGiven(keyPath(path, "old_secret"), keyPath(path, "old_secret_file"))
	if !c.given(old) || !c.sound(keyPath(path, "old_secret")) ||
		!c.sound(keyPath(path, "old_secret_file")) {
		return
	}
	switch _, ok := w.OldSecret.signingKey(); {
	case !ok:
		c.fail(old, "found a secret that is too short or no base64 (it is not shown), %s", words)
	case w.OldSecret == w.Secret:
		c.fail(old, "found the same as secret (it is not shown), expected the one before it")
	}
}

// SigningKeys returns the keys of Secret and OldSecret, and whether they are long enough.
func (w Webhook) SigningKeys() (keys [][]byte, ok bool) {
	key, ok := w.Secret.signingKey()
	keys = append(keys, key)
	if ok && !w.OldSecret.IsZero() {
		key, ok = w.OldSecret.signingKey()
		keys = append(keys, key)
	}
	return keys, ok
}

func (s Secret) signingKey() (key []byte, ok bool) {
	const least, most = 24, 64
	encoded, standard := strings.CutPrefix(s.Reveal(), "whsec_")
	if !standard {
		return []byte(s.Reveal()), len(s.Reveal()) >= least
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	return key, err == nil && len(key) >= least && len(key) <= most
}

func (c *checker) checkEvents(w *Webhook, path string) {
	if c.given(path) && c.sound(path) && len(w.Events) == 0 {
		c.fail(path, "found no events, expected some of %s", strings.Join(Outcomes(), ", "))
	}
	for i, event := range w.Events {
		if c.full() {
			return
		}
		if at := itemPath(path, i); c.sound(at) && !slices.Contains(Outcomes(), event) {
			c.fail(at, "unknown event %s%s", c.foundAt(at), suggest.Hint(event, Outcomes()))
		}
	}
}

// checkPatterns reports patterns that resemble a job's name. Other unmatched patterns may be for
// jobs added at run time.
func (c *checker) checkPatterns(w *Webhook, path string) {
	if c.given(path) && c.sound(path) && len(w.Jobs) == 0 {
		c.fail(path, "found no jobs, expected names or patterns such as night-*; without the key "+
			"it is notified of all jobs")
	}
	names := make([]string, len(c.config.Jobs))
	for i, j := range c.config.Jobs {
		names[i] = j.Name
	}
	for i, pattern := range w.Jobs {
		at := itemPath(path, i)
		switch {
		case !c.sound(at):
		case pattern == "":
			c.fail(at, "found %s, expected a job's name or a pattern such as night-*",
				c.foundAt(at))
		case !strings.Contains(pattern, "*") && !slices.Contains(names, pattern) &&
			suggest.Of(pattern, names) != "":
			c.fail(at, "unknown job %s%s", c.foundAt(at), suggest.Hint(pattern, names))
		}
	}
}

func (c *checker) checkHeaders(headers []Header, path string) {
	for i, h := range headers {
		name, value := keyPath(itemPath(path, i), "name"), keyPath(itemPath(path, i), "value")
		if c.near(itemPath(path, i)).value.kind != kindMapping {
			continue
		}
		switch {
		case !c.sound(name):
		case !proxyheader.IsValid(h.Name):
			c.fail(name, "found %s, expected the name of an HTTP header", c.foundAt(name))
		case slices.Contains(reservedHeaders, strings.ToLower(h.Name)):
			c.fail(name, "found %s, which is set by the scheduler, expected another header",
				c.foundAt(name))
		}
		if c.sound(value) && strings.ContainsFunc(h.Value.Reveal(), unicode.IsControl) {
			c.fail(value,
				"found a value with control characters (it is not shown), expected one line")
		}
	}
}
