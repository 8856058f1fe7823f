package memcached

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Rating rates a setting for locks.
type Rating string

const (
	Good   Rating = "good"
	Advice Rating = "advice" // another value would be better
	Unsafe Rating = "unsafe" // locks may be lost or refused
)

// Setting is one of a server's settings that matter for locks.
type Setting struct {
	Name   string `json:"name"`  // as `stats settings` has it
	Value  string `json:"value"` // "" if the server does not report it
	Rating Rating `json:"rating"`
	Want   string `json:"want,omitempty"` // the required value if the rating is not good
	Mend   string `json:"mend,omitempty"` // how to correct it
	Why    string `json:"why,omitempty"`
}

// String returns a text such as "evictions is on, expected off: start it with -M".
func (s Setting) String() string {
	text := s.Name + " is " + s.Value
	if s.Value == "" {
		text = s.Name + " is not reported"
	}
	if s.Rating == Good {
		return text
	}
	return fmt.Sprintf("%s, expected %s: %s", text, s.Want, s.Mend)
}

// needs are the backend's own requirements.
type needs struct {
	password bool
}

// rule rates one setting.
type rule struct {
	name   string
	good   func(value string, all map[string]string, n needs) bool
	rating Rating // if the check fails
	want   string
	mend   string
	why    string
}

const (
	knownGood    = "1.6.18" // the oldest release in the tests
	smallestItem = 8 << 10  // a lock's value has at most 4 KiB
	connections  = 64       // two for each of 16 replicas, and 32 that memcached keeps for itself
	anywhere     = "NULL"   // `inter` without -l
)

// rules are in the order of display. They were measured on 1.6.18:
// docs/decisions/0007.
func rules() []rule {
	return []rule{
		{"evictions", is("off"), Unsafe, "off", "start it with -M",
			"a full server drops items that have not expired, and active locks are among them"},
		{"flush_enabled", is("no"), Unsafe, "no", "start it with -F",
			"any client can remove all locks with flush_all"},
		{"slab_reassign", is("no"), Unsafe, "no", "start it with -o no_slab_reassign",
			"when it moves memory between sizes it drops items, with -M too"},
		{"cas_enabled", is("yes"), Unsafe, "yes", "start it without -C",
			"Holdfast renews and releases locks with cas"},
		{"item_size_max", atLeast(smallestItem), Unsafe,
			fmt.Sprintf("%d or more", smallestItem), "start it without -I",
			"the value of a lock may not fit"},
		{"maxconns", atLeast(connections), Unsafe, fmt.Sprintf("%d or more", connections),
			"start it with a larger -c",
			"each replica needs two connections"},
		{"auth_enabled_ascii", asksPassword, Unsafe, "a file of users", "start it with -Y",
			"a password is configured, but the server accepts clients without one"},
		{"temp_lru", idleTemporary, Advice, "no", "start it without -o temporary_ttl",
			"with -M it protects no lock, and it delays the reuse of expired items"},
		{"idle_timeout", is("0"), Advice, "0", "start it without -o idle_timeout",
			"replicas keep connections, and each closed one must be opened again"},
		{"udpport", is("0"), Advice, "0", "start it with -U 0",
			"locks use TCP, and attackers can use UDP to flood other hosts"},
		{"inter", somewhere, Advice, "an address on a private network", "start it with -l",
			"it asks for no password, so every client that reaches it can remove locks"},
		{"version", sinceKnownGood, Advice, knownGood + " or newer", "install a newer release",
			"this was not tested with older ones"},
	}
}

func is(want string) func(string, map[string]string, needs) bool {
	return func(value string, _ map[string]string, _ needs) bool { return value == want }
}

func atLeast(want int64) func(string, map[string]string, needs) bool {
	return func(value string, _ map[string]string, _ needs) bool {
		number, err := strconv.ParseInt(value, 10, 64)
		return err == nil && number >= want
	}
}

// asksPassword: the value is the path of the file, or "no".
func asksPassword(value string, _ map[string]string, n needs) bool {
	return !n.password || value != "no" && value != ""
}

// idleTemporary accepts temporary_ttl while items are evicted, because it protects locks then.
func idleTemporary(value string, all map[string]string, _ needs) bool {
	return value != "yes" || all["evictions"] != "off"
}

func somewhere(value string, all map[string]string, n needs) bool {
	open := value == anywhere || value == "" || value == "0.0.0.0" || value == "::"
	socket := all["domain_socket"] != "" && all["domain_socket"] != "NULL"
	return !open || socket || n.password
}

func sinceKnownGood(value string, _ map[string]string, _ needs) bool {
	return compareVersions(value, knownGood) >= 0
}

// compareVersions compares version numbers. A part that is not a number counts as 0.
func compareVersions(a, b string) int {
	for range 3 {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := cmp.Compare(leading(x), leading(y)); c != 0 {
			return c
		}
	}
	return 0
}

// leading returns the number at the beginning of a text: 18 for "18-rc1".
func leading(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		text = text[:end]
	}
	n, _ := strconv.Atoi(text) // 0 without a number
	return n
}

// judge returns all settings that matter, with their ratings.
func judge(r reading, n needs) []Setting {
	all := r.settings
	var judged []Setting
	for _, rule := range rules() {
		value := all[rule.name]
		if rule.name == "version" {
			value = r.version
		}
		s := Setting{Name: rule.name, Value: value, Rating: Good}
		if !rule.good(value, all, n) {
			s.Rating, s.Want, s.Mend, s.Why = rule.rating, rule.want, rule.mend, rule.why
		}
		judged = append(judged, s)
	}
	return judged
}
