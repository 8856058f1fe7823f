package configs

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

// Webhook is an address that receives the outcomes of runs.
type Webhook struct {
	Name string `yaml:"name"` // 1 to 200 bytes, unique
	// URL is http:// or https://. It is a Secret because it may contain one.
	URL Secret `yaml:"url"`
	// Events are the outcomes to send.
	Events []string `yaml:"events"`
	// Jobs are names or patterns, in which * matches any text; empty: all jobs.
	Jobs []string `yaml:"jobs"`
	// Secret signs the requests: whsec_ and 24 to 64 bytes in base64, or a text of at least 24
	// bytes.
	Secret Secret `yaml:"secret"`
	// OldSecret also signs, until all receivers have the new one.
	OldSecret Secret        `yaml:"old_secret"`
	Timeout   time.Duration `yaml:"timeout" min:"1s" max:"1m"` // of one attempt
	Retry     retry.Policy  `yaml:"retry" delay:"1s"`
	Headers   []Header      `yaml:"headers"`
}

// Header is an additional header of the requests of a webhook or of tracing.
type Header struct {
	Name  string `yaml:"name"`
	Value Secret `yaml:"value"`
}

// Outcomes returns the events that webhooks can receive: the final states of runs.
func Outcomes() []string {
	return []string{"succeeded", "failed", "timed_out", "cancelled", "lost", "skipped", "missed"}
}

// Covers reports whether the webhook receives the job's outcomes.
func (w Webhook) Covers(job string) bool {
	if len(w.Jobs) == 0 {
		return true
	}
	for _, pattern := range w.Jobs {
		if matches(pattern, job) {
			return true
		}
	}
	return false
}

// matches reports whether a name matches a pattern.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, begins := strings.CutPrefix(name, parts[0])
	if !begins {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] { // the first match leaves most room for the next parts
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// start sets the defaults of a webhook.
func (w *Webhook) start(*Config) {
	*w = Webhook{
		Events:  []string{"failed", "timed_out", "lost", "missed"},
		Timeout: 10 * time.Second,
		Retry: retry.Policy{
			Delay: 10 * time.Second, MaxDelay: time.Hour, Elapsed: 24 * time.Hour,
			Backoff: retry.Exponential, Jitter: 0.1,
		},
	}
}
