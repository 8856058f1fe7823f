package memcached

import (
	"fmt"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"
)

// TestServersChooseAsGomemcacheDoes checks that keys stay on their servers in clusters that migrate
// from gomemcache.
func TestServersChooseAsGomemcacheDoes(t *testing.T) {
	addresses := []string{"127.0.0.1:1", "127.0.0.1:2", "/run/memcached.sock"}
	var theirs memcache.ServerList
	if err := theirs.SetServers(addresses[:2]...); err != nil {
		t.Fatal(err)
	}
	ours := newServers(addresses[:2])
	for i := range 1000 {
		key := fmt.Sprintf("key %d", i)
		want, err := theirs.PickServer(key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.PickServer(key)
		if err != nil || got.String() != want.String() || got.Network() != want.Network() {
			t.Fatalf("%s goes to %v (%v), want %v", key, got, err, want)
		}
	}
	if socket := newServers(addresses)[2]; socket.Network() != "unix" ||
		socket.String() != addresses[2] {
		t.Errorf("socket: %s %s", socket.Network(), socket)
	}
	if _, err := newServers(nil).PickServer("k"); err != memcache.ErrNoServers {
		t.Errorf("no servers: %v", err)
	}
}

func TestFingerprintsOfListsDiffer(t *testing.T) {
	seen := map[string][]string{}
	for _, list := range [][]string{{"a:1"}, {"b:1"}, {"a:1", "b:1"}, {"b:1", "a:1"},
		{"a:1", "b:1", "c:1"}} {
		mark := Fingerprint(list)
		if other, twice := seen[mark]; twice || len(mark) != 16 || mark != Fingerprint(list) {
			t.Errorf("%q is %q, as %q", list, mark, other)
		}
		seen[mark] = list
	}
}
