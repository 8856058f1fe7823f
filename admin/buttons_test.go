package admin

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestButtonsNameTheirObject checks that each button, and each link to an action, has a verb with
// an object in sight: "Cancel run" and not "Cancel". Links to other parts of the same list, and
// choices, are none.
func TestButtonsNameTheirObject(t *testing.T) {
	t.Parallel()
	exempt := []string{"Earlier", "Later", "Previous", "Next", // the same chart or log elsewhere
		"Search", // beside its field, in the form that is labelled Search
		""}       // the text is a value, such as that of a theme
	hidden := regexp.MustCompile(`(?s)<span\s+class="hidden">.*?</span\s*>`)
	code := regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	acts := regexp.MustCompile(`(?s)<(button)\b[^>]*>(.*?)</button>|` +
		`<(a)\b([^>]*)>(.*?)</a>`)
	action := regexp.MustCompile(`class="button|/(cancel|again|pause|resume|drain|undrain)"|` +
		`\{\{(actionPath|releasePath|deliverPath) `)
	buttons := 0
	for _, name := range append(globbed(t, templatesOfPages), globbed(t, templatesOfActions)...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range acts.FindAllStringSubmatch(quotedCode(string(text)), -1) {
			shown := match[2]
			if match[3] == "a" {
				if shown = match[5]; !action.MatchString(match[4]) {
					continue
				}
			}
			shown = strings.Join(strings.Fields(code.ReplaceAllString(
				hidden.ReplaceAllString(shown, ""), " … ")), " ")
			words := strings.Fields(strings.ReplaceAll(shown, "…", ""))
			buttons++
			if len(words) < 2 && !slices.Contains(exempt, strings.Join(words, " ")) {
				t.Errorf("%s: the button %q has no object", name, shown)
			}
		}
	}
	if buttons < 60 {
		t.Errorf("checked %d buttons", buttons)
	}
}

// quotedCode returns a template in whose actions no ">" ends a tag.
func quotedCode(text string) string {
	return regexp.MustCompile(`(?s)\{\{.*?\}\}`).ReplaceAllStringFunc(text, func(s string) string {
		return strings.ReplaceAll(s, ">", " ")
	})
}
