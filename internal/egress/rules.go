package egress

import (
	"fmt"
	"net/netip"
	"slices"
)

// Rules are the targets that are allowed. A nil *Rules allows all but the addresses that are
// refused by default. Rules may be used concurrently.
type Rules struct{ allow, deny []pattern }

// ParsePattern returns an error that describes what is expected, if a text is not a pattern.
func ParsePattern(text string) error {
	_, err := parsePattern(text)
	return err
}

// NewRules returns the rules of an allow-list and a deny-list of patterns. An empty allow-list
// allows all. The deny-list goes first.
func NewRules(allow, deny []string) (*Rules, error) {
	r := &Rules{}
	for _, list := range []struct {
		texts []string
		to    *[]pattern
	}{{allow, &r.allow}, {deny, &r.deny}} {
		for _, text := range list.texts {
			p, err := parsePattern(text)
			if err != nil {
				return nil, fmt.Errorf("target %q: %w", text, err)
			}
			*list.to = append(*list.to, p)
		}
	}
	return r, nil
}

// CheckHost returns why the host of a URL is refused, before it is resolved. It returns nil if that
// depends on its address.
func (r *Rules) CheckHost(host string) error {
	host, err := asciiHost(host)
	if err != nil {
		return err
	}
	addr, literal := address(host)
	if literal {
		return r.check(host, addr)
	}
	byAddress := func(p pattern) bool { return p.network.IsValid() }
	if r == nil || slices.ContainsFunc(r.allow, byAddress) {
		return r.checkDenied(host)
	}
	return r.checkName(host)
}

// checkProxied returns why a proxy may not be asked for a host. The proxy resolves names, so they
// must be allowed as names.
func (r *Rules) checkProxied(host string) error {
	if addr, literal := address(host); literal {
		return r.check(host, addr)
	}
	if endsInNumber(nameOf(host)) {
		return fmt.Errorf("target %s refused: expected a name, or an address in its usual form",
			host)
	}
	return r.checkName(host)
}

// checkName returns why a name is refused, if its address will not be known.
func (r *Rules) checkName(host string) error {
	if err := r.checkDenied(host); err != nil {
		return err
	}
	if r != nil && len(r.allow) > 0 && !matchesName(r.allow, host) {
		return fmt.Errorf("target %s refused: it is not in handlers.http.allow", host)
	}
	return nil
}

func (r *Rules) checkDenied(host string) error {
	if r != nil && matchesName(r.deny, host) {
		return fmt.Errorf("target %s refused: it is in handlers.http.deny", host)
	}
	return nil
}

// check returns why a host at an address is refused.
func (r *Rules) check(host string, addr netip.Addr) error {
	if err := r.checkDenied(host); err != nil {
		return err
	}
	for _, one := range reached(addr) {
		if r != nil && matchesAddress(r.deny, one) {
			return fmt.Errorf("target %s refused: it is in handlers.http.deny", addr)
		}
		if refused := refusedNetwork(one); refused.IsValid() && !r.allowsPart(refused, one) {
			return fmt.Errorf("target %s refused: link-local addresses and metadata services of "+
				"clouds are not for jobs, unless handlers.http.allow has their address", addr)
		}
	}
	if refusedNetwork(addr).IsValid() {
		return nil // handlers.http.allow has it
	}
	if r != nil && len(r.allow) > 0 && !matchesName(r.allow, host) &&
		!matchesAddress(r.allow, addr) {
		return fmt.Errorf("target %s refused: it is not in handlers.http.allow", addr)
	}
	return nil
}

// allowsPart reports whether the allow-list has an address by a part of the network. A list that
// allows all addresses does not mean those that are refused by default.
func (r *Rules) allowsPart(network netip.Prefix, addr netip.Addr) bool {
	return r != nil && slices.ContainsFunc(r.allow, func(p pattern) bool {
		return p.matchAddress(addr) && p.network.Bits() >= network.Bits()
	})
}

func matchesName(patterns []pattern, host string) bool {
	name := nameOf(host)
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matchName(name) })
}

func matchesAddress(patterns []pattern, addr netip.Addr) bool {
	return slices.ContainsFunc(patterns, func(p pattern) bool { return p.matchAddress(addr) })
}

// refusedNetwork returns the network of an address that is refused by default, or the zero Prefix.
func refusedNetwork(addr netip.Addr) netip.Prefix {
	for _, network := range []string{
		"169.254.0.0/16", "fe80::/10", // link-local
		"fd00:ec2::254/128",  // metadata of AWS over IPv6
		"fd20:ce::254/128",   // metadata of Google Cloud over IPv6
		"100.100.100.200/32", // metadata of Alibaba Cloud
		"168.63.129.16/32",   // host of Azure
		"192.0.0.192/32",     // metadata of Oracle Cloud
	} {
		if prefix := netip.MustParsePrefix(network); prefix.Contains(addr) {
			return prefix
		}
	}
	return netip.Prefix{}
}
