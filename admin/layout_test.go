package admin

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// TestPartsLineUpInABrowser checks places of pages by the edges and the heights of their parts.
func TestPartsLineUpInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	many := siteIn(t, window, newServer(t, full()).Handler())
	some := siteIn(t, window, newServer(t, contention()).Handler())
	folded := siteIn(t, window, newServer(t, families()).Handler())
	const functions = `const box = (selector) => document.querySelector(selector).getBoundingClientRect();
		const members = "tbody:has(:checked) + .kids ";
		const lines = (selector) => document.querySelector(selector).getClientRects().length;`
	for name, c := range map[string]struct {
		address string
		width   int64
		holds   string
	}{
		"the number of more problems is in one line": {many + "/", 1440,
			`box(".problems li:last-child").height < box(".problems li:first-child").height * 1.3`},
		"the third panel fills the second row": {some + "/", 768,
			`box(".board > :nth-child(3)").right === box(".board > :nth-child(2)").right`},
		"a number and its unit are in one line": {some + "/", 360, `(() => {
			const label = document.querySelector("#tile-failed .label").firstChild;
			const range = document.createRange();
			range.setStart(label, label.length - 4);
			range.setEnd(label, label.length);
			return range.getClientRects().length === 1;
		})()`},
		"a member of a family is at one edge": {folded + "/jobs", 360,
			`box(members + ".name").left === box(members + ".badge").left`},
		"the name of a job fits": {some + "/grid", 360,
			`lines('.grid a[href="/jobs/report%2Fweekly"] bdi') === 1`},
	} {
		resize(t, window, c.width, 800)
		browsertest.Visit(t, window, c.address+"?refresh=off")
		if !evaluate[bool](t, window, `(() => { `+functions+` return `+c.holds+`; })()`) {
			t.Errorf("%s at %d px: not true that %s", c.address, c.width, name)
		}
	}
}
