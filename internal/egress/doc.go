// Package egress decides where jobs and webhooks may send requests. The configuration allows and
// denies hosts and networks, and [Transport] refuses all requests to other targets.
//
// A target has a name, from the URL, and an address, which is known only when it is dialled. A name
// that resolves to a refused address is refused, whatever it resolved to before. Link-local
// addresses and the metadata services of clouds are refused, because a URL must not read the
// credentials of its machine. The configuration can allow them with an entry for these addresses,
// but not with a wider network.
//
// With a proxy (HTTP_PROXY) the proxy resolves names. Then only the names are compared. For plain
// HTTP, the host that the proxy is asked for is that of the header Host, so it must be allowed too.
package egress
