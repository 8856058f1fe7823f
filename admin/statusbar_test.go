package admin

import (
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestStatusBarLinksInABrowser follows each part of the status bar with the keyboard, in a narrow
// and in a wide window, on pages with a prefix. Each link must lead to a visible heading of its
// part.
func TestStatusBarLinksInABrowser(t *testing.T) {
	t.Parallel()
	o := calm()
	o.Prefix = testPrefix
	o.Memcached = servers{healthy("cache-1.internal:11211")}
	h := o.Store.(*history)
	h.replicas[0].Databases = []storage.DatabaseState{{Name: "warehouse", Since: noon}}
	window := tab(t)
	site := siteIn(t, window, newServer(t, o).Handler())
	want := []string{"PostgreSQL", "Replicas", "memcached", "Databases of jobs"}
	for _, s := range []screen{screens()[0], screens()[3]} {
		for n, heading := range want {
			visit(t, window, s, site+testPrefix+"/runs?refresh=off")
			for range 40 {
				press(t, window, "\t")
				if evaluate[int](t, window, `[...document.querySelectorAll(".parts a")].`+
					`indexOf(document.activeElement)`) == n {
					break
				}
			}
			part := evaluate[struct {
				Text          string
				Right, Height float64
			}](t, window, `(() => {
				const e = document.activeElement, box = e.getBoundingClientRect();
				return {text: e.textContent, right: box.right, height: box.height};
			})()`)
			if part.Right > float64(s.Width) || part.Height < 24 {
				t.Errorf("%s: the link %+v is outside the window or too small", s.Name, part)
			}
			press(t, window, "\r")
			until(t, window, `location.pathname == "`+testPrefix+`/replicas" && `+
				`document.readyState == "complete"`)
			until(t, window, `(() => {
				const e = document.getElementById(location.hash.slice(1)) ??
					document.querySelector("h1");
				const box = e.getBoundingClientRect();
				return e.textContent.trim().startsWith("`+heading+`") && box.top >= 0 &&
					box.bottom <= innerHeight;
			})()`)
		}
	}
}
