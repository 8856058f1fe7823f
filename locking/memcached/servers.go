package memcached

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"net"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"
)

// servers chooses a key's server as gomemcache's own list does: by crc32, over
// the configured order. Unlike it, this one looks names up when it connects and
// not once at the start, so that a name may come later, or move.
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
	if len(s) == 1 {
		return s[0], nil
	}
	return s[crc32.ChecksumIEEE([]byte(key))%uint32(len(s))], nil
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

// Fingerprint identifies a list of servers in its order, in 16 characters.
// Replicas whose lists differ look for one lock on different servers.
func Fingerprint(servers []string) string {
	sum := sha256.Sum256([]byte(strings.Join(servers, "\n")))
	return hex.EncodeToString(sum[:8])
}

// server is a net.Addr that is still a name.
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
