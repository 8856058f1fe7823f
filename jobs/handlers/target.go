package handlers

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

const (
	dialTimeout   = 30 * time.Second // as of http.DefaultTransport
	dialKeepAlive = 30 * time.Second
)

// metadataServices returns the addresses of metadata services that are not link-local: of AWS over
// IPv6, and of Alibaba Cloud.
func metadataServices() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("fd00:ec2::254"),
		netip.MustParseAddr("100.100.100.200")}
}

// guardedTransport returns a transport like http.DefaultTransport that refuses targets. It looks
// at the address that is dialled, so that a name that resolves to a refused address is refused.
func guardedTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: dialKeepAlive, Control: checkTarget}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
		ForceAttemptHTTP2: true, MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
}

func checkTarget(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("target %s: %w", address, err)
	}
	addr := target.Addr().Unmap().WithZone("")
	if addr.IsLinkLocalUnicast() || slices.Contains(metadataServices(), addr) {
		return fmt.Errorf("target %s refused: link-local addresses and metadata services of "+
			"clouds are not for jobs", addr)
	}
	return nil
}
