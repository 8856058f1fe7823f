package configs

import (
	"reflect"
	"time"

	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/retry"
)

// decodePolicy sets v if the policy is valid, because jobs inherit from it. The rule delay is the
// minimum delay.
func (d *decoder) decodePolicy(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	policy := v.Interface().(retry.Policy)
	d.decodeStruct(n, reflect.ValueOf(&policy).Elem(), path)
	if n.kind != kindMapping {
		return
	}
	lowest, _ := time.ParseDuration(rules.Get("delay"))
	d.checkPolicy(path, policy, lowest)
	d.checkRetries(n, path, policy)
	for _, f := range fieldsOf(policyType).list {
		if !d.sound(keyPath(path, f.key)) {
			return
		}
	}
	v.Set(reflect.ValueOf(policy))
}

// checkRetries refuses a policy with keys that only apply to further attempts, if it gets its
// number of attempts from the default, which permits none.
func (d *decoder) checkRetries(n *node, path string, p retry.Policy) {
	if p.Attempts != 1 || n.entry("attempts") != nil || len(n.entries) == 0 {
		return
	}
	for _, e := range n.entries {
		if !d.sound(keyPath(path, e.name)) {
			return // attempts may be misspelt
		}
	}
	first := n.entries[0].name
	d.failKey(keyPath(path, first), "found %s without attempts, expected attempts too: the "+
		"default is 1, so no attempt would follow", first)
}

// decodeWait is decodePolicy for a wait policy.
func (d *decoder) decodeWait(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	wait := v.Interface().(Wait)
	d.decodeStruct(n, reflect.ValueOf(&wait).Elem(), path)
	if n.kind != kindMapping {
		return
	}
	lowest, _ := time.ParseDuration(rules.Get("delay"))
	d.checkPolicy(path, wait.Policy(), lowest)
	for _, f := range fieldsOf(waitType).list {
		if !d.sound(keyPath(path, f.key)) {
			return
		}
	}
	v.Set(reflect.ValueOf(wait))
}

func (d *decoder) checkPolicy(path string, p retry.Policy, lowest time.Duration) {
	const maxAttempts = 10_000
	if p.Attempts == 0 { // unlimited attempts need a minimum delay
		lowest = max(lowest, 10*time.Millisecond)
	}
	at := func(key string) string { return keyPath(path, key) }
	must := func(ok bool, key, format string, args ...any) {
		if !ok && d.sound(at(key)) {
			d.fail(at(key), format, args...)
		}
	}
	must(p.Attempts >= 0 && p.Attempts <= maxAttempts, "attempts",
		"found %d, expected 1 to %d, or 0 with a limit by elapsed", p.Attempts, maxAttempts)
	must(p.Attempts != 0 || p.Elapsed > 0, "attempts",
		"found 0, expected 1 or more, or a limit by elapsed")
	must(p.Attempts == 1 || p.Delay >= lowest, "delay",
		"found %s, expected %s or more", durations.Short(p.Delay), durations.Short(lowest))
	must(p.Delay >= 0, "delay", "found %s, expected 0s or more", durations.Short(p.Delay))
	must(p.MaxDelay >= 0, "max_delay", "found %s, expected 0s for no limit, or more",
		durations.Short(p.MaxDelay))
	if p.MaxDelay > 0 && p.MaxDelay < p.Delay && d.sound(at("delay")) && d.sound(at("max_delay")) {
		d.fail(d.firstGiven(at("max_delay"), at("delay")),
			"found a delay of %s with a max_delay of %s, expected max_delay to be as long or 0s",
			durations.Short(p.Delay), durations.Short(p.MaxDelay))
	}
	must(p.Elapsed >= 0, "elapsed", "found %s, expected 0s for no limit, or more",
		durations.Short(p.Elapsed))
	must(p.Jitter >= 0 && p.Jitter <= 1, "jitter", "found %v, expected a number from 0 to 1",
		p.Jitter)
	switch p.Backoff {
	case retry.Constant, retry.Exponential, retry.ReverseExponential:
	default:
		must(false, "backoff", "found %s, expected one of %s, %s, %s",
			d.near(at("backoff")).value.found(),
			retry.Constant, retry.Exponential, retry.ReverseExponential)
	}
}
