package access

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"strings"
)

// requestIDHeader is the header of a request's id, in requests of a trusted proxy and in answers.
const requestIDHeader = "X-Request-Id"

// Source says which request an action comes from, for the audit log and for logs.
type Source struct {
	Client    string // the address; "" if it is not known
	RequestID string // not empty
}

type sourceKey struct{}

// SourceOf returns the source of a request that WithSource handles.
func SourceOf(r *http.Request) Source {
	source, _ := r.Context().Value(sourceKey{}).(Source)
	return source
}

// WithSource determines the source of each request, and sends the request's id with the answer.
func (g *Guard) WithSource(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxy := g.rules().proxy
		source := Source{RequestID: requestIDOf(r, proxy)}
		if client := clientOf(r, proxy); client != (netip.Addr{}) {
			source.Client = client.String()
		}
		w.Header().Set(requestIDHeader, source.RequestID)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sourceKey{}, source)))
	})
}

// requestIDOf returns the id that a trusted proxy sent if it is a single short and printable one,
// otherwise a random one. A client must not choose the id, or it could imitate another request.
func requestIDOf(r *http.Request, proxy *Proxy) string {
	const longest = 100
	ids := r.Header.Values(requestIDHeader)
	if len(ids) == 1 && len(ids[0]) <= longest && ids[0] != "" && proxy.sent(r) &&
		!strings.ContainsFunc(ids[0], func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ids[0]
	}
	return rand.Text()
}
