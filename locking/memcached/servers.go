package memcached

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"net"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"
)

// servers chooses a key's server by crc32 over the configured order, as gomemcache's
// list does. But it resolves names at each connection, not once at the start. So a
// name may appear later, or move.
type servers []net.Addr

func newServers(addresses []string) servers {
	list := make(servers, len(addresses))
	for i, address := range addresses {
		list[i] = server(address)
	}
	return list
}

// PickServer implements memcache.ServerSelector.
func (s servers) PickServer(key string) (net.Addr, error) {
	if len(s) == 0 {
		return nil, memcache.ErrNoServers
	}
	return s[s.place(key)], nil
}

// place returns the index of the server that has the key. There is at least one.
func (s servers) place(key string) int {
	if len(s) == 1 {
		return 0
	}
	return int(crc32.ChecksumIEEE([]byte(key)) % uint32(len(s)))
}

// Each implements memcache.ServerSelector.
func (s servers) Each(visit func(net.Addr) error) error {
	for _, address := range s {
		if err := visit(address); err != nil {
			return err
		}
	}
	return nil
}

// Fingerprint identifies a list of servers and its order, in 16 characters.
func Fingerprint(servers []string) string {
	sum := sha256.Sum256([]byte(strings.Join(servers, "\n")))
	return hex.EncodeToString(sum[:8])
}

// server is a net.Addr with an unresolved name.
type server string

// Network implements net.Addr.
func (s server) Network() string {
	if strings.HasPrefix(string(s), "/") {
		return "unix"
	}
	return "tcp"
}

// String implements net.Addr.
func (s server) String() string { return string(s) }
