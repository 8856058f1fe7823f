package access

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

// TestHostileCookiesAreFast has 64 KB of cookies, more than a server accepts. On a slow machine
// they may take longer, but not three times as long as half of them.
func TestHostileCookiesAreFast(t *testing.T) {
	part := soak.Pick(4, 1) // outside the soak a quarter of the text has a quarter of the time
	p := newTestProvider(t)
	guard := newGuard(t, p.policy(t))
	handler := handlerOf(guard)
	for _, name := range []string{secureCookie, secureCookie + oidcSuffix} {
		for _, text := range []string{name + "=; ", name + "=a.b.c; ", "=; ", ";",
			name + "=1.YW5uYQ.99999999999.YQ; ", name + "=\"; ", "\"",
			name + "=" + strings.Repeat(".", 3000) + "; "} {
			asks := func(size int) func() {
				cookies := strings.Repeat(text, size/len(text))
				return func() {
					reply := accesstest.Ask(handler, http.MethodGet, "/",
						accesstest.WithHeader("Cookie", cookies))
					if reply.Code != http.StatusSeeOther {
						t.Errorf("%.50q: %d", text, reply.Code)
					}
				}
			}
			size := (64 << 10) / part
			speedtest.WithinOrLike(t, text, 100*time.Millisecond/time.Duration(part),
				asks(size/2), asks(size))
		}
	}
}
