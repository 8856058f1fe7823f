// Package egress decides where jobs and webhooks may send requests. The configuration names hosts
// and networks, and [Transport] holds to them.
//
// A target has a name, from the URL, and an address, which is known only when it is dialled. A name
// that resolves to a refused address is refused, whatever it resolved to before. Link-local
// addresses and the metadata services of clouds are refused unless they are allowed by themselves,
// because a URL must not read the credentials of its machine.
//
// With a proxy (HTTP_PROXY) the proxy resolves names. Then only the names are compared.
package egress
