package egress

import "net/netip"

// reached returns an address, and the address that a connection to it may reach instead. Linux
// connects an unspecified address to loopback. A gateway translates an IPv6 address that contains
// an IPv4 address.
func reached(addr netip.Addr) []netip.Addr {
	all := []netip.Addr{addr}
	switch {
	case addr == netip.IPv4Unspecified():
		return append(all, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	case addr == netip.IPv6Unspecified():
		return append(all, netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case !addr.Is6(), addr == netip.IPv6Loopback():
		return all
	}
	bytes := addr.As16()
	for _, form := range []struct {
		network string
		at      int // the first byte of the IPv4 address
	}{
		{"64:ff9b::/96", 12},   // NAT64 (RFC 6052)
		{"64:ff9b:1::/48", 12}, // NAT64 within a network (RFC 8215)
		{"2002::/16", 2},       // 6to4 (RFC 3056)
		{"::/96", 12},          // IPv4-compatible (RFC 4291)
	} {
		if netip.MustParsePrefix(form.network).Contains(addr) {
			inner := netip.AddrFrom4([4]byte(bytes[form.at : form.at+4]))
			return append(all, reached(inner)...)
		}
	}
	return all
}
