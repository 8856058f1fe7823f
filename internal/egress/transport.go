package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Transport is an http.Transport that refuses targets by rules.
type Transport struct {
	*http.Transport
	rules *Rules
}

// route is a value of a request's context: the proxy through which it is sent.
type route struct {
	proxy atomic.Pointer[string] // host:port; nil: none
}

type routeKey struct{}

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
	request, err := withASCIIHosts(request)
	if err != nil {
		return nil, err
	}
	if err := t.rules.CheckHost(request.URL.Hostname()); err != nil {
		return nil, err
	}
	ctx := context.WithValue(request.Context(), routeKey{}, new(route))
	return t.Transport.RoundTrip(request.WithContext(ctx))
}

// withASCIIHosts returns the request with its hosts in ASCII, as the rules compare them. net/http
// would send a proxy other forms of some names.
func withASCIIHosts(request *http.Request) (*http.Request, error) {
	inURL, err := asciiHost(request.URL.Host)
	if err != nil {
		return nil, err
	}
	inHeader, err := asciiHost(request.Host)
	if err != nil {
		return nil, fmt.Errorf("header Host: %w", err)
	}
	if inURL == request.URL.Host && inHeader == request.Host {
		return request, nil
	}
	changed, target := *request, *request.URL
	target.Host = inURL
	changed.URL, changed.Host = &target, inHeader
	return &changed, nil
}

// through returns the proxy that configured returns for a request, if any. A proxy may have any
// address. The hosts that it is asked for must be allowed.
func (t *Transport) through(request *http.Request,
	configured func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	proxy, err := configured(request)
	if proxy == nil || err != nil {
		return proxy, err
	}
	if err := t.rules.checkProxied(request.URL.Hostname()); err != nil {
		return nil, err
	}
	if request.URL.Scheme == "http" && request.Host != "" &&
		!strings.HasPrefix(proxy.Scheme, "socks") {
		// net/http writes this host into the request line, in place of the host of the URL.
		named, err := url.Parse("http://" + request.Host)
		if err != nil || named.Host != request.Host || named.Hostname() == "" {
			return nil, errors.New("header Host refused: expected a host, with or without a port")
		}
		if err := t.rules.checkProxied(named.Hostname()); err != nil {
			return nil, err
		}
	}
	if taken, marked := request.Context().Value(routeKey{}).(*route); marked {
		via := addressOf(proxy)
		taken.proxy.Store(&via)
	}
	return proxy, nil
}

// addressOf returns the host:port of a proxy.
func addressOf(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080",
			"socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// throughProxy reports whether the address is the proxy of the request that needs the connection.
// Jobs may not reach the proxy itself just because other requests go through it.
func throughProxy(ctx context.Context, address string) bool {
	taken, marked := ctx.Value(routeKey{}).(*route)
	if !marked {
		return false
	}
	via := taken.proxy.Load()
	return via != nil && *via == address
}

// dial connects to an address, unless the rules refuse what it resolves to.
func (t *Transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", address, err)
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if !throughProxy(ctx, address) {
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
