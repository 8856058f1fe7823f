package egress

import (
	"errors"
	"net/netip"
	"strings"
)

// pattern matches targets: either by address or by name.
type pattern struct {
	network netip.Prefix // invalid for names
	name    string       // in lower case; .example.com: all names below example.com; "": all names
}

// errPattern describes valid patterns.
var errPattern = errors.New("expected a host such as api.example.com or *.example.com, an " +
	"address, or a network such as 10.1.0.0/16")

// parsePattern parses a host, *.host, *, an address or a network.
func parsePattern(text string) (pattern, error) {
	if network, err := netip.ParsePrefix(text); err == nil {
		if network != network.Masked() || network.Addr().Is4In6() {
			return pattern{}, errPattern
		}
		return pattern{network: network}, nil
	}
	if addr, ok := address(text); ok {
		return pattern{network: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	if text == "*" {
		return pattern{}, nil
	}
	name := strings.ToLower(text)
	below, all := strings.CutPrefix(name, "*.")
	if below == "" || strings.HasPrefix(below, ".") || strings.ContainsFunc(below, notOfNames) {
		return pattern{}, errPattern
	}
	if all {
		return pattern{name: "." + below}, nil
	}
	return pattern{name: name}, nil
}

// notOfNames reports whether a character is in no host name. Names in other scripts are written in
// their ASCII form (xn--).
func notOfNames(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
}

// matchName reports whether the pattern matches a name, as nameOf returns it.
func (p pattern) matchName(name string) bool {
	switch {
	case p.network.IsValid():
		return false
	case p.name == "":
		return true
	case p.name[0] == '.':
		return strings.HasSuffix(name, p.name)
	}
	return name == p.name
}

func (p pattern) matchAddress(addr netip.Addr) bool {
	return p.network.IsValid() && p.network.Contains(addr)
}

// nameOf returns the form of a host in which names are compared.
func nameOf(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// address parses an address, with or without brackets. An IPv4 address in IPv6 counts as IPv4.
func address(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}
