package admin

import (
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestTexts compares the texts of all pages with testdata/texts.txt, so that a change of the
// wording is seen in one place. In the file "…" stands for a name or a time and "#" for a number.
// With HOLDFAST_UPDATE set, the test writes the file.
func TestTexts(t *testing.T) {
	t.Parallel()
	byPage, known := make(map[string][]string), make(map[string]string)
	for _, state := range galleryStates() {
		if len(state.options.Store.(*history).jobs) > 1000 ||
			strings.Contains(state.name, "hostile") {
			continue // no texts of their own
		}
		server := newServer(t, state.options)
		if state.before != nil {
			state.before(t, server)
		}
		page := kindOf(t, state.address())
		byPage[page] = append(byPage[page],
			textsOf(t, get(t, state.handler(server), state.address()).Body, known)...)
	}
	// A text on more than half of the pages belongs to the layout.
	pages := make(map[string]int)
	for page, texts := range byPage {
		slices.Sort(texts)
		byPage[page] = slices.Compact(texts)
		for _, text := range byPage[page] {
			pages[text]++
		}
	}
	var out strings.Builder
	section := func(page string, texts []string, inFrame bool) {
		out.WriteString("# " + page + "\n")
		for _, text := range texts {
			if pages[text] > len(byPage)/2 == inFrame {
				out.WriteString(text + "\n")
			}
		}
		out.WriteString("\n")
	}
	section("All pages", slices.Sorted(maps.Keys(pages)), true)
	for _, page := range slices.Sorted(maps.Keys(byPage)) {
		section(page, byPage[page], false)
	}
	golden(t, "texts.txt", []byte(out.String()))
}

// kindOf returns the path of a page with "…" in place of names and ids.
func kindOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(u.EscapedPath(), "/")
	if len(parts) > 2 && parts[1] != "locks" {
		parts[2] = "…"
	}
	return strings.Join(parts, "/")
}

var (
	textNumber = regexp.MustCompile(`\d+(?:[,.:]\d+)*`)
	textBlanks = regexp.MustCompile(`\s+`)
	textUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|…[0-9a-f]{8}\b`) // or its end
)

// plainText returns a text without its data. It adds the result to known, because the expressions
// are slow and pages have many texts in common.
func plainText(text string, known map[string]string) string {
	plain, found := known[text]
	if !found {
		plain = textUUID.ReplaceAllString(text, "…")
		plain = textNumber.ReplaceAllString(plain, "#")
		plain = strings.TrimSpace(textBlanks.ReplaceAllString(plain, " "))
		known[text] = plain
	}
	return plain
}

// textsOf returns the texts of a page: one for each block, label and tooltip. See plainText for
// known.
func textsOf(t *testing.T, page io.Reader, known map[string]string) (texts []string) {
	t.Helper()
	inline := []string{"a", "abbr", "b", "bdi", "code", "em", "i", "kbd", "small", "span", "strong",
		"time", "var", "wbr", "tspan"}
	data := []string{"bdi", "time", "code", "pre", "textarea"}
	var block strings.Builder
	var open []string // open elements that contain data
	end := func() {
		if text := plainText(block.String(), known); strings.ContainsFunc(text, isLetter) {
			texts = append(texts, text)
		}
		block.Reset()
	}
	skipped := ""
	tokens := html.NewTokenizer(page)
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			if err := tokens.Err(); err != io.EOF {
				t.Fatal(err)
			}
			end()
			return texts
		}
		token := tokens.Token()
		name := token.Data
		switch {
		case kind == html.TextToken:
			if skipped == "" && len(open) == 0 {
				block.WriteString(name)
			}
			continue
		case kind == html.DoctypeToken, kind == html.CommentToken:
			continue
		}
		switch {
		case name == "span":
			block.WriteByte(' ')
		case !slices.Contains(inline, name):
			end()
		}
		for _, attribute := range token.Attr {
			if slices.Contains([]string{"title", "aria-label", "placeholder", "alt"},
				attribute.Key) && len(open) == 0 {
				if text := plainText(attribute.Val, known); strings.ContainsFunc(text, isLetter) {
					texts = append(texts, attribute.Key+": "+text)
				}
			}
		}
		switch {
		case kind == html.EndTagToken && name == skipped:
			skipped = ""
		case kind == html.StartTagToken && (name == "script" || name == "style" ||
			name == "noscript"):
			skipped = name
		case kind == html.StartTagToken && slices.Contains(data, name):
			if len(open) == 0 {
				block.WriteString("…")
			}
			open = append(open, name)
		case kind == html.EndTagToken && len(open) > 0 && open[len(open)-1] == name:
			open = open[:len(open)-1]
		}
	}
}

func isLetter(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
