package memcached_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/locking/memcached"
)

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		options memcached.Options
		want    string // in the error; empty: none
	}{
		"defaults":         {memcached.Options{Servers: []string{"127.0.0.1:11211"}}, ""},
		"name for later":   {memcached.Options{Servers: []string{"not-there.invalid:11211"}}, ""},
		"socket":           {memcached.Options{Servers: []string{"/run/memcached.sock"}}, ""},
		"no servers":       {memcached.Options{}, "no servers"},
		"no port":          {memcached.Options{Servers: []string{"127.0.0.1:11211", "localhost"}}, `"localhost"`},
		"empty port":       {memcached.Options{Servers: []string{"localhost:"}}, `"localhost:"`},
		"negative timeout": {memcached.Options{Servers: []string{"a:1"}, Timeout: -1}, "negative"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := memcached.New(test.options)
			if (err == nil) != (test.want == "") || err != nil &&
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
