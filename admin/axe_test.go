package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// finding is a rule of axe-core that a page breaks.
type finding struct {
	Rule   string
	Impact string // minor, moderate, serious or critical
	Help   string
	Nodes  []string // where and why
}

// auditing runs the rules of axe-core for WCAG 2.2 at levels A and AA, and those for good practice.
const auditing = `
axe.run(document, {
	resultTypes: ["violations"],
	runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
	rules: {"target-size": {enabled: true}},
}).then((results) => results.violations.map((v) => ({
	rule: v.id, impact: v.impact, help: v.help,
	nodes: v.nodes.slice(0, 5).map((n) => n.target.join(" ") + ": " + n.html.slice(0, 200) + ": " + n.failureSummary.replace(/\s+/g, " ").slice(0, 300)),
})))`

// auditor checks pages with axe-core.
type auditor struct{ script string }

// newAuditor reads the script of axe-core. Its README describes where the script comes from.
func newAuditor(t *testing.T) auditor {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile("testdata/axe/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	script := read("axe.js")
	match := regexp.MustCompile("SHA-256 of `axe.js`: `([0-9a-f]{64})`").
		FindSubmatch(read("README.md"))
	if sum := fmt.Sprintf("%x", sha256.Sum256(script)); match == nil || sum != string(match[1]) {
		t.Fatalf("axe.js has the checksum %s, its README has another", sum)
	}
	return auditor{string(script)}
}

// look fails the test for serious and critical findings on the page in the window, and logs the
// others.
func (a auditor) look(t *testing.T, window context.Context, where string) {
	t.Helper()
	for _, f := range a.findings(t, window) {
		message := fmt.Sprintf("%s: %s, %s: %s:\n\t%s", where, f.Impact, f.Rule, f.Help,
			strings.Join(f.Nodes, "\n\t"))
		if f.Impact == "serious" || f.Impact == "critical" {
			t.Error(message)
		} else {
			t.Log(message)
		}
	}
}

func (a auditor) findings(t *testing.T, window context.Context) []finding {
	t.Helper()
	if !evaluate[bool](t, window, `typeof axe == "object"`) { // each navigation removes it
		if err := chromedp.Do(window, chromedp.Evaluate[chromedp.Void](a.script)); err != nil {
			t.Fatal(err)
		}
	}
	return browsertest.Await[[]finding](t, window, auditing)
}
