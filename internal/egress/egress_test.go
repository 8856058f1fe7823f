package egress

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func mustRules(t *testing.T, allow, deny string) *Rules {
	t.Helper()
	rules, err := NewRules(strings.Fields(allow), strings.Fields(deny))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		allow, deny string
		host, addr  string // the address is what the host resolves to
		refused     string // a part of the error; "": allowed
	}{
		{"", "", "example.com", "192.0.2.1", ""},
		{"", "", "127.0.0.1", "127.0.0.1", ""},
		{"", "", "metadata.internal", "169.254.169.254", "link-local"},
		{"", "", "::ffff:169.254.169.254", "::ffff:169.254.169.254", "link-local"},
		{"", "", "fe80::1", "fe80::1", "link-local"},
		{"", "", "a", "fd00:ec2::254", "link-local"},
		{"", "", "a", "100.100.100.200", "link-local"},
		{"*", "", "metadata.internal", "169.254.169.254", "link-local"},
		{"metadata.internal", "", "metadata.internal", "169.254.169.254", "link-local"},
		{"0.0.0.0/0", "", "metadata.internal", "169.254.169.254", "link-local"},
		{"169.254.169.254", "", "metadata.internal", "169.254.169.254", ""},
		{"169.254.169.0/24", "", "a", "169.254.169.254", ""},
		{"169.254.169.254", "metadata.internal", "Metadata.Internal.", "169.254.169.254", "deny"},
		{"", "10.0.0.0/8", "a", "10.1.2.3", "deny"},
		{"", "10.0.0.0/8", "a", "11.1.2.3", ""},
		{"", "*.corp", "db.corp", "192.0.2.1", "deny"},
		{"", "*.corp", "corp", "192.0.2.1", ""},
		{"", "*.corp", "xcorp", "192.0.2.1", ""},
		{"", "db.corp.", "db.corp", "192.0.2.1", "deny"},
		{"*.corp.", "", "db.corp.", "192.0.2.1", ""},
		{"*.example.com", "", "API.Example.Com", "192.0.2.1", ""},
		{"*.example.com", "", "example.com", "192.0.2.1", "not in handlers.http.allow"},
		{"*.example.com", "", "example.com.evil.net", "192.0.2.1", "not in handlers.http.allow"},
		{"*.example.com", "", "192.0.2.1", "192.0.2.1", "not in handlers.http.allow"},
		{"192.0.2.0/24", "", "whatever", "192.0.2.1", ""},
		{"192.0.2.0/24", "", "whatever", "198.51.100.1", "not in handlers.http.allow"},
		{"2001:db8::/32 a", "", "a", "192.0.2.1", ""},
		{"a", "a", "a", "192.0.2.1", "deny"},
		{"", "0.0.0.0/0 ::/0", "127.0.0.1", "127.0.0.1", "deny"},
		// Linux connects unspecified addresses to loopback.
		{"", "127.0.0.0/8", "0.0.0.0", "0.0.0.0", "deny"},
		{"", "127.0.0.0/8", "a", "::ffff:0.0.0.0", "deny"},
		{"", "127.0.0.0/8", "[::]", "::", "deny"},
		{"", "::1", "a", "::", "deny"},
		{"", "::1", "a", "0.0.0.0", "deny"},
		{"127.0.0.0/8", "", "a", "0.0.0.0", "not in handlers.http.allow"},
		{"", "", "0.0.0.0", "0.0.0.0", ""},
		{"", "", "a", "168.63.129.16", "link-local"},
		{"", "", "a", "192.0.0.192", "link-local"},
		{"", "", "a", "fd20:ce::254", "link-local"},
		{"168.63.129.16", "", "a", "168.63.129.16", ""},
		// IPv6 addresses that contain an IPv4 address
		{"", "", "a", "64:ff9b::169.254.169.254", "link-local"},
		{"", "", "a", "64:ff9b:1::a9fe:a9fe", "link-local"},
		{"", "", "a", "2002:a9fe:a9fe::1", "link-local"},
		{"", "", "a", "::169.254.169.254", "link-local"},
		{"64:ff9b::/96", "", "a", "64:ff9b::169.254.169.254", "link-local"},
		{"64:ff9b::/96 169.254.169.254", "", "a", "64:ff9b::169.254.169.254", ""},
		{"", "10.0.0.0/8", "a", "64:ff9b::10.1.2.3", "deny"},
		{"", "10.0.0.0/8", "a", "2002:a01:203::", "deny"},
		{"", "10.0.0.0/8", "a", "::10.1.2.3", "deny"},
		{"", "127.0.0.0/8", "a", "64:ff9b::", "deny"},
		{"", "10.0.0.0/8", "a", "64:ff9b::11.1.2.3", ""},
		{"", "10.0.0.0/8", "a", "2001:db8::a01:203", ""},
		{"", "127.0.0.0/8", "a", "::1", ""},
	} {
		rules := mustRules(t, test.allow, test.deny)
		err := rules.check(test.host, netip.MustParseAddr(test.addr).Unmap())
		if test.refused == "" && err != nil ||
			test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%+v: found %v", test, err)
		}
		// What CheckHost refuses, the address cannot change.
		if early := rules.CheckHost(test.host); early != nil && err == nil {
			t.Errorf("%+v: refused before it is resolved: %v", test, early)
		}
	}
}

// TestRefusedBeforeResolving checks that a refused host is reported when the job is read, if its
// text alone decides.
func TestRefusedBeforeResolving(t *testing.T) {
	for _, test := range []struct {
		allow, deny, host string
		refused           bool
	}{
		{"", "", "169.254.169.254", true}, {"", "", "[fe80::1]", true}, {"", "", "a", false},
		{"", "a", "a", true}, {"b", "", "a", true}, {"b 10.0.0.0/8", "", "a", false},
		{"b 10.0.0.0/8", "", "192.0.2.1", true}, {"*.b", "", "a.b", false},
		{"", "xn--bcher-kva.example", "Bücher.example", true}, {"", "", "bücher.example", false},
		{"xn--bcher-kva.example", "", "bücher.example", false},
		{"", "", "１６９.254。169.254", true}, {"", "", "ü_：x", true},
	} {
		if err := mustRules(t, test.allow,
			test.deny).CheckHost(test.host); (err != nil) != test.refused {
			t.Errorf("%+v: found %v", test, err)
		}
	}
	var none *Rules
	if none.CheckHost("a") != nil || none.CheckHost("169.254.169.254") == nil {
		t.Error("nil rules: got other decisions, want those of the default")
	}
}

func TestPatterns(t *testing.T) {
	for _, text := range []string{"", ".", "*.", "a b", "http://a", "a:80", "a/b", "10.0.0.1/8", "*a",
		"a*", "..a", "*..a", "a..b", "a..", "ä.de", "::ffff:10.0.0.0/104",
		// forms of IPv4 addresses for inet_aton
		"10.1", "10.1.", "2130706433", "0x7f.1", "127.0x0", "0X7f000001", "10.0.0.1.", "*.1"} {
		if ParsePattern(text) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	for _, text := range []string{"a", "*.a", "*", "A.b-c", "10.0.0.1", "::1", "10.0.0.0/8",
		"a_b", "a.", "*.a.", "10.a", "1a", "0xyz"} {
		if err := ParsePattern(text); err != nil {
			t.Error(err)
		}
	}
}

// TestNamesAreCheckedByTheirAddress dials a name that resolves to a refused address.
func TestNamesAreCheckedByTheirAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		allow, deny string
		refused     bool
	}{
		{"", "", false}, {"", "127.0.0.0/8 ::1", true}, {"192.0.2.0/24", "", true},
		{"127.0.0.1 ::1", "", false}, {"localhost", "", false},
	} {
		transport := mustRules(t, test.allow, test.deny).NewTransport()
		response, err := (&http.Client{Transport: transport}).Get("http://localhost:" + port)
		if (err != nil) != test.refused ||
			err != nil && !strings.Contains(err.Error(), "refused:") {
			t.Errorf("%+v: found %v", test, err)
		}
		if err == nil {
			response.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}

// TestProxy checks that the proxy may have any address, while the host of the request must be
// allowed.
func TestProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Host)
	}))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	get := func(allow, target string) error {
		transport := mustRules(t, allow, "").NewTransport()
		defer transport.CloseIdleConnections()
		environment := func(*http.Request) (*url.URL, error) { return address, nil }
		transport.Proxy = func(r *http.Request) (*url.URL, error) {
			return transport.through(r, environment)
		}
		response, err := (&http.Client{Transport: transport}).Get(target)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := get("*.example.com", "http://a.example.com/"); err != nil {
		t.Error(err)
	}
	// The proxy itself is a target as any other, and so are other ports of its host.
	transport := mustRules(t, "", "127.0.0.0/8").NewTransport()
	defer transport.CloseIdleConnections()
	proxied := true
	environment := func(*http.Request) (*url.URL, error) {
		if proxied {
			return address, nil
		}
		return nil, nil
	}
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		return transport.through(r, environment)
	}
	for _, target := range []string{"http://a.example.com/", proxy.URL} {
		response, err := (&http.Client{Transport: transport}).Get(target)
		if err == nil {
			response.Body.Close()
		}
		if proxied != (err == nil) {
			t.Errorf("%s, through the proxy %v: %v", target, proxied, err)
		}
		transport.CloseIdleConnections()
		proxied = false
	}
	for _, target := range []string{"http://b.example.net/", "http://192.0.2.1/"} {
		if err := get("*.example.com 10.0.0.0/8", target); err == nil ||
			!strings.Contains(err.Error(), "not in handlers.http.allow") {
			t.Errorf("%s: found %v", target, err)
		}
	}
}

// TestHostHeaderThroughProxy checks the header Host of requests through a proxy: for plain HTTP,
// net/http asks the proxy for that host, and not for the host of the URL.
func TestHostHeaderThroughProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host)
	}))
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	newTransport := func(allow, deny string, proxy *url.URL) *Transport {
		transport := mustRules(t, allow, deny).NewTransport()
		t.Cleanup(transport.CloseIdleConnections)
		transport.Proxy = func(r *http.Request) (*url.URL, error) {
			return transport.through(r, func(*http.Request) (*url.URL, error) { return proxy, nil })
		}
		return transport
	}
	get := func(transport *Transport, target, host string) (asked string, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	const target = "http://a.example.com/x"
	for _, test := range []struct{ host, allow, deny, refused string }{
		{"169.254.169.254", "", "", "link-local"},
		{"169.254.169.254:80", "", "", "link-local"},
		{"[::ffff:169.254.169.254]", "", "", "link-local"},
		{"169.254.169.254", "*.example.com", "", "link-local"},
		{"b.example.net", "*.example.com", "", "not in handlers.http.allow"},
		{"b.example.net", "*.example.com 192.0.2.0/24", "", "not in handlers.http.allow"},
		{"B.example.net.:8080", "", "*.example.net", "in handlers.http.deny"},
		{"10.1.2.3", "", "10.0.0.0/8", "in handlers.http.deny"},
		{"bücher.example", "", "xn--bcher-kva.example", "in handlers.http.deny"},
		{"2852039166", "", "", "usual form"},
		{"c.example.com:80:169.254.169.254", "", "", "header Host refused"},
		{"c.example.com%2f", "", "", "header Host refused"},
		{":80", "", "", "header Host refused"},
		{"", "*.example.com", "", ""},
		{"c.example.com:8080", "*.example.com", "", ""},
	} {
		asked, err := get(newTransport(test.allow, test.deny, address), target, test.host)
		if test.refused == "" && err != nil ||
			test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%+v: found %v, and the proxy was asked for %q", test, err, asked)
		}
		if test.refused == "" && asked != cmp.Or(test.host, "a.example.com") {
			t.Errorf("%+v: the proxy was asked for %q", test, asked)
		}
	}
	// The proxy gets a name in the form that was compared.
	const inASCII = "xn--bcher-kva.example"
	for _, test := range []struct{ target, host, deny, refused string }{
		{"http://Bücher.example:8080/", "", inASCII, "in handlers.http.deny"},
		{"http://BÜCHER.example/", "", "", ""},
		{"http://a.example.com/", "BÜCHER.example", "", ""},
		{"http://１６９.254。169.254/", "", "", "link-local"},
		{"http://2852039166/", "", "", "usual form"},
		{"http://0xa9fea9fe/", "", "", "usual form"},
		{"http://169.254.43518./", "", "", "usual form"},
	} {
		asked, err := get(newTransport("", test.deny, address), test.target, test.host)
		if test.refused == "" && (err != nil || asked != inASCII) ||
			test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%+v: found %v, and the proxy was asked for %q", test, err, asked)
		}
	}
	// Without a proxy, the header chooses a virtual host of the server in the URL.
	const virtual = "inside.example.net"
	if asked, err := get(newTransport("127.0.0.1", "*.example.net", nil), server.URL,
		virtual); err != nil || asked != virtual {
		t.Errorf("the server got %q, %v", asked, err)
	}
	// A SOCKS proxy, and any proxy for https, is asked for the host of the URL.
	connecting := errors.New("connecting")
	for target, proxy := range map[string]*url.URL{
		target: {Scheme: "socks5", Host: address.Host}, "https://a.example.com/x": address} {
		transport := newTransport("", "10.0.0.0/8", proxy)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, connecting
		}
		if _, err := get(transport, target, "10.1.2.3"); !errors.Is(err, connecting) {
			t.Errorf("%s through %s: found %v", target, proxy, err)
		}
	}
}
