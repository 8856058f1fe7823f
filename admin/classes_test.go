package admin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// awaitedClasses are in the stylesheet for pages that do not use them yet: the chart and icons of
// the overview.
func awaitedClasses() []string {
	return strings.Fields("area band dot goner h26 h60 h82 halves " +
		"hatchw-ground hatchw-line hollow in-warn m-lost " +
		"over root shared soft2 sometimes usual")
}

// builtClasses are the classes that package ansi builds from color codes.
func builtClasses() []string {
	return strings.Fields("a a-1 a-2 a-3 a-4 a-7 a-9 a-31 a-32 a-33 a-34 a-35 a-36 a-37 a-90 " +
		"a-41 a-42 a-43 a-44 a-45 a-46")
}

// TestStylesheetHasOnlyUsedClasses checks that each class of the stylesheet is used in a template
// or in code that renders one.
func TestStylesheetHasOnlyUsedClasses(t *testing.T) {
	sheet, err := os.ReadFile("internal/pages/static/holdfast.css")
	if err != nil {
		t.Fatal(err)
	}
	used := wordsOfPages(t)
	comment := regexp.MustCompile(`(?s)/\*.*?\*/`)
	block := regexp.MustCompile(`\{[^{}]*\}`)
	selectors := block.ReplaceAllString(comment.ReplaceAllString(string(sheet), ""), "{}")
	var unused []string
	for _, match := range regexp.MustCompile(`\.([a-zA-Z][\w-]*)`).FindAllStringSubmatch(selectors,
		-1) {
		class := match[1]
		if !used[strings.TrimRight(class, "0123456789")] && !used[class] &&
			!slices.Contains(awaitedClasses(), class) && !slices.Contains(builtClasses(), class) &&
			!slices.Contains(unused, class) {
			unused = append(unused, class)
		}
	}
	if len(unused) > 0 {
		t.Errorf("no template has the classes %s", strings.Join(unused, ", "))
	}
}

// TestClassesAreInTheStylesheet checks that each class in a template, or in a row that Go builds,
// has a rule in the stylesheet.
func TestClassesAreInTheStylesheet(t *testing.T) {
	sheet, err := os.ReadFile("internal/pages/static/holdfast.css")
	if err != nil {
		t.Fatal(err)
	}
	hooks := []string{"clock", "offline", "runs", "job"} // used by the script and by tests
	action := regexp.MustCompile(`\{\{.*?\}\}`)
	files := append(globbed(t, templatesOfPages), globbed(t, templatesOfActions)...)
	for _, name := range append(files, filesWithMarkup(t)...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		plain := action.ReplaceAllString(string(text), " ")
		for _, match := range regexp.MustCompile(" class=\"([^\"`]*)").FindAllStringSubmatch(plain,
			-1) {
			for class := range strings.FieldsSeq(match[1]) {
				if !slices.Contains(hooks, class) &&
					!regexp.MustCompile(`\.`+class+`(\b|\d)`).Match(sheet) {
					t.Errorf("%s: the stylesheet has no rule for the class %s", name, class)
				}
			}
		}
	}
}

const (
	templatesOfPages   = "internal/pages/templates/*.html"
	templatesOfActions = "internal/pages/templates/actions/*.html"
)

// globbed returns the files that match a pattern, at least one.
func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s matches %d files: %v", pattern, len(files), err)
	}
	return files
}

// wordsOfPages returns the words that may be classes: the class attributes of templates and the
// string literals in the code of the pages.
func wordsOfPages(t *testing.T) map[string]bool {
	t.Helper()
	used := make(map[string]bool)
	word := regexp.MustCompile(`[a-zA-Z][\w-]*`)
	attribute := regexp.MustCompile(`class="(.*?[^{]?)"(?:[ />]|\{\{)`)
	literal := regexp.MustCompile(`"([a-z][\w-]*)"`)
	add := func(pattern string, part *regexp.Regexp) {
		for _, name := range globbed(t, pattern) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range part.FindAllSubmatch(text, -1) {
				for _, class := range word.FindAll(match[1], -1) {
					used[string(class)] = true
				}
			}
		}
	}
	add(templatesOfPages, attribute)
	add(templatesOfActions, attribute)
	add("internal/pages/static/page.js", regexp.MustCompile(`class: "([^"]*)"`))
	for _, code := range []string{"*.go", "internal/*/*.go", "../jobs/*.go",
		"../locking/memcached/*.go"} {
		add(code, literal)
		add(code, regexp.MustCompile("class=\"([^\"`]*)"))        // of HTML that Go builds
		add(code, regexp.MustCompile("` ([a-z][\\w-]*)(?:`|\")")) // a further class of it
	}
	return used
}
