package configs

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/retry"
)

// Webhook is an address that is told how runs end.
type Webhook struct {
	Name string `yaml:"name"` // 1 to 200 bytes, unique
	// URL is http:// or https://. It is a secret, as many of them hold one.
	URL Secret `yaml:"url"`
	// Events are the states of runs that it is told of.
	Events []string `yaml:"events"`
	// Jobs are names or patterns, in which * stands for any text; none: all jobs.
	Jobs []string `yaml:"jobs"`
	// Secret signs what is sent: whsec_ and 24 to 64 bytes in base64, or a text of
	// 24 bytes or more.
	Secret Secret `yaml:"secret"`
	// OldSecret signs too, until all receivers have the new one.
	OldSecret Secret        `yaml:"old_secret"`
	Timeout   time.Duration `yaml:"timeout" min:"1s" max:"1m"` // of one try
	Retry     retry.Policy  `yaml:"retry" delay:"1s"`
	Headers   []Header      `yaml:"headers"`
}

// Header is sent along.
type Header struct {
	Name  string `yaml:"name"`
	Value Secret `yaml:"value"`
}

// Outcomes are the events of webhooks: the states in which runs end.
func Outcomes() []string {
	return []string{"succeeded", "failed", "timed_out", "cancelled", "lost", "skipped", "missed"}
}

// Covers reports whether the webhook is told of the job's runs.
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

// matches reports whether a name has the form of a pattern.
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
	for _, part := range parts[1:last] { // the first place is the best: what follows has most room
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// start makes w what a webhook starts as.
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
