package access

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxy is a load balancer in front of the server that names the client, and possibly the user. A
// nil Proxy trusts no address.
type Proxy struct {
	// Networks are the addresses of the proxy.
	Networks []netip.Prefix
	// UserHeader is the header that names the user, or "" if the proxy does not sign users in. The
	// proxy must remove it from clients' requests.
	UserHeader string
	Role       Role     // of users who are not in Operators
	Operators  []string // by the names in UserHeader
}

// names reports whether the proxy signs users in.
func (p *Proxy) names() bool { return p != nil && p.UserHeader != "" }

func (p *Proxy) trusts(address netip.Addr) bool {
	return p != nil && slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool {
		return n.Contains(address)
	})
}

func (p *Proxy) roleOf(name string) Role {
	if slices.Contains(p.Operators, name) {
		return Operator
	}
	return p.Role
}

// peerOf returns the address of the connection's peer, or the zero Addr for a request without a
// connection.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

// clientOf returns the address of the client: the peer, or behind a trusted proxy the last address
// in X-Forwarded-For that is not trusted. Earlier entries are the client's own claims.
func clientOf(r *http.Request, proxy *Proxy) netip.Addr {
	client := peerOf(r)
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !proxy.trusts(client) {
			break
		}
		address, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		client = address.Unmap().WithZone("")
	}
	return client
}

// overTLS reports whether the browser uses TLS, to this server or to the proxy.
func overTLS(r *http.Request, proxy *Proxy) bool {
	return r.TLS != nil || proxy.trusts(peerOf(r)) &&
		strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
