package admin

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxy is what stands in front of the server: a load balancer that says for
// access it asks, and perhaps one that has signed them in. A nil Proxy trusts
// nobody.
type Proxy struct {
	// Networks are those that it asks from.
	Networks []netip.Prefix
	// UserHeader names who it has signed in; "" where it signs nobody in. The
	// proxy must remove it from what clients send.
	UserHeader string
	Role       Role     // of those who are not among Operators
	Operators  []string // by the names that UserHeader has
}

// names reports whether the proxy signs anybody in.
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

// peerOf returns the address at the other end of the connection; it is zero
// for requests that came over none.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

// clientOf returns the address that the request comes from: the peer's, or
// where that is a trusted proxy the last in X-Forwarded-For that is not. What
// latest before it is the client's own word.
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

// overTLS reports whether the browser is known to speak TLS, with us or with
// the proxy.
func overTLS(r *http.Request, proxy *Proxy) bool {
	return r.TLS != nil || proxy.trusts(peerOf(r)) &&
		strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
