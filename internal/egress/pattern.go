package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
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
	name := nameOf(text)
	below, all := strings.CutPrefix(name, "*.")
	if slices.Contains(strings.Split(below, "."), "") || strings.ContainsFunc(below, notOfNames) ||
		endsInNumber(below) {
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

// endsInNumber reports whether the last label of a name is a number. Many resolvers take such a
// name, for example 10.1 or 0x7f000001, for an IPv4 address.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if digits, hexadecimal := strings.CutPrefix(last, "0x"); hexadecimal {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
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

// asciiHost returns a host, with or without a port, with its name in the ASCII form that net/http
// resolves.
func asciiHost(host string) (string, error) {
	if !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return host, nil
	}
	name, port, found := strings.Cut(host, ":")
	name, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return "", fmt.Errorf("target %s refused: %w", host, err)
	}
	if found {
		name += ":" + port
	}
	return name, nil
}

// address parses an address, with or without brackets. An IPv4 address in IPv6 counts as IPv4.
func address(host string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}
