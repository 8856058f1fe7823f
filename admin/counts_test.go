package admin

import (
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"testing"
)

// TestCountsHaveCommas looks for counts without commas on the pages of a cluster with thousands of
// jobs, locks and runs.
func TestCountsHaveCommas(t *testing.T) {
	t.Parallel()
	server := newServer(t, full())
	handler := server.Handler()
	for path, want := range map[string][]string{
		"/": {"300 of 1,000 tables held.", "14,289, at most 219 in 15 min",
			`<span class="value">2,223</span>`, "1,333 failed, 890 skipped"},
		"/jobs":                        {`<span class="count">1,000</span>`},
		"/jobs?sort=duration":          nil,
		"/runs":                        nil,
		"/runs?state=failed":           nil,
		"/locks":                       {"All 1,000"},
		"/locks/timeline":              {"of 1,000 resources are drawn"},
		"/locks/contention":            nil,
		"/locks/upcoming":              nil,
		"/grid":                        nil,
		"/grid?span=30d":               nil,
		"/replicas":                    nil,
		"/search?q=load":               nil,
		"/jobs/load-0004":              nil,
		"/bulk/pause?matching=text%3D": nil,
	} {
		page := flat(get(t, handler, path).Body.String())
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s lacks %q", path, text)
			}
		}
		for _, text := range shownTexts(page) {
			if plainCount.MatchString(notCounts.ReplaceAllString(text, "")) {
				t.Errorf("%s has a number from 1,000 on without a comma: %q", path, text)
			}
		}
	}
}

var (
	plainCount = regexp.MustCompile(`\b\d{4,}\b`)
	// Times, ids, and the names of full.
	notCounts = regexp.MustCompile(`\d{4}-\d\d-\d\d|` + textUUID.String() +
		`|\b(load|check|merge|prune)-\d{4}\b|\bpart_\d{5}\b`)
	// Parts of a page that are data, without counts.
	dataElement = regexp.MustCompile(`<(?:bdi|time|code|pre|script|style)\b[^>]*>[^<]*</|` +
		`<td[^>]* data-label="Token"[^>]*>[^<]*|<dt>Token</dt><dd>[^<]*`)
	shownText = regexp.MustCompile(` (?:title|aria-label)="([^"]*)"|>([^<]+)`)
)

// shownTexts returns the texts and the tooltips of a page, without names and times.
func shownTexts(page string) (texts []string) {
	for _, found := range shownText.FindAllStringSubmatch(dataElement.ReplaceAllString(page, "<"),
		-1) {
		texts = append(texts, found[1]+found[2])
	}
	return texts
}

// TestRowsInGoHaveCounts checks that texts of rows in Go have their numbers from words.Count:
// strconv.Itoa is for attributes.
func TestRowsInGoHaveCounts(t *testing.T) {
	for _, name := range filesWithMarkup(t) {
		positions := token.NewFileSet()
		for _, call := range markupCalls(t, positions, name) {
			markup, isText := "", methodOf(call) == "AddText"
			for i, part := range call.Args {
				text := types.ExprString(part)
				if i%2 == 0 && !isText {
					markup += text
					continue
				}
				inText := strings.LastIndex(markup, ">") >= strings.LastIndex(markup, `="`)
				if inText && strings.HasPrefix(text, "strconv.Itoa(") {
					t.Errorf("%s: a number in a text that is not from words.Count",
						positions.Position(part.Pos()))
				}
			}
		}
	}
}
