package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// Transport is an http.Transport that refuses targets by rules.
type Transport struct {
	*http.Transport
	rules   *Rules
	proxies sync.Map // addresses of the proxies that were used
}

// NewTransport returns a transport with the settings of http.DefaultTransport.
func (r *Rules) NewTransport() *Transport {
	t := &Transport{rules: r}
	t.Transport = &http.Transport{
		DialContext:       t.dial,
		ForceAttemptHTTP2: true, MaxIdleConns: 100, IdleConnTimeout: 90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
	t.Proxy = func(request *http.Request) (*url.URL, error) {
		return t.through(request, http.ProxyFromEnvironment)
	}
	return t
}

// RoundTrip refuses a request by its host, and sends it otherwise. Each redirect is a request.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.rules.CheckHost(request.URL.Hostname()); err != nil {
		return nil, err
	}
	return t.Transport.RoundTrip(request)
}

// through returns the proxy that configured returns for a request, if any. A proxy may have any
// address. It resolves names, so they must be allowed as names.
func (t *Transport) through(request *http.Request,
	configured func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	proxy, err := configured(request)
	if proxy == nil || err != nil {
		return proxy, err
	}
	host := request.URL.Hostname()
	if _, literal := address(host); !literal {
		if err := t.rules.checkName(host); err != nil {
			return nil, err
		}
	}
	t.proxies.Store(proxy.Hostname(), true)
	return proxy, nil
}

// dial connects to an address, unless the rules refuse what it resolves to.
func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", address, err)
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if _, isProxy := t.proxies.Load(host); !isProxy {
		dialer.Control = func(_, resolved string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return fmt.Errorf("target %s: %w", resolved, err)
			}
			return t.rules.check(host, target.Addr().Unmap().WithZone(""))
		}
	}
	return dialer.DialContext(ctx, network, address)
}
