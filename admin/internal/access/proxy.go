package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
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
	// SecretHeader is the header in which the proxy sends Secret, or "" if it needs no secret. The
	// proxy must replace it in clients' requests.
	SecretHeader string
	Secret       string // at least 32 bytes
	// ClientCAs sign the client certificates of the proxy, or nil if it needs no certificate. The
	// server needs TLS.
	ClientCAs *x509.CertPool
	// ClientNames are common names and DNS names. A certificate of the proxy must have one of them.
	// Empty: it may have any name.
	ClientNames []string
}

// names reports whether the proxy signs users in.
func (p *Proxy) names() bool { return p != nil && p.UserHeader != "" }

// sent reports whether the proxy proved to have sent the request: by its address, and by its secret
// and its certificate if it needs them.
func (p *Proxy) sent(r *http.Request) bool {
	return p.trusts(peerOf(r)) && p.hasSecret(r.Header) && p.checkCertificate(r.TLS) == nil
}

func (p *Proxy) hasSecret(h http.Header) bool {
	if p.SecretHeader == "" {
		return true
	}
	secrets := h.Values(p.SecretHeader) // several: the proxy did not replace that of the client
	if len(secrets) != 1 {
		return false
	}
	got, want := sha256.Sum256([]byte(secrets[0])), sha256.Sum256([]byte(p.Secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// trusts reports whether the address is one of the proxy's.
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
func peerOf(r *http.Request) netip.Addr { return parsePeer(r.RemoteAddr) }

func parsePeer(address string) netip.Addr {
	peer, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

// clientOf returns the address of the client: the peer, or behind a trusted proxy the last address
// in X-Forwarded-For that is not trusted. Earlier entries are the client's own claims.
func clientOf(r *http.Request, proxy *Proxy) netip.Addr {
	client := peerOf(r)
	if !proxy.sent(r) {
		return client
	}
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
	return r.TLS != nil || proxy.sent(r) &&
		strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
