package cluster

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// maxErrorTexts bounds the texts of the latest errors.
	maxErrorTexts = 10
	// maxErrorText and minErrorText bound one of them, in bytes.
	maxErrorText = 80
	minErrorText = 4
)

// varying is what errors of the same kind do not have in common: quoted names, numbers and ids.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|` + "`[^`]*`" +
	`|[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*`)

// errorTexts returns texts that the errors of runs contain, those of the first runs first. Errors
// of the same kind have one text.
func errorTexts(runs []storage.Record) []string {
	var texts []string
	for _, run := range runs {
		text := errorText(run.Error)
		if text == "" || slices.Contains(texts, text) {
			continue
		}
		if texts = append(texts, text); len(texts) == maxErrorTexts {
			break
		}
	}
	return texts
}

// errorText returns the longest part of an error that other errors of its kind have too, of the
// first line with such a part. It returns "" if there is none.
func errorText(text string) (longest string) {
	for line := range strings.Lines(text) {
		for _, part := range varying.Split(line, -1) {
			part = strings.TrimFunc(cutAtWord(part), func(r rune) bool {
				return !unicode.IsLetter(r)
			})
			if len(part) > len(longest) {
				longest = part
			}
		}
		if len(longest) >= minErrorText {
			return longest
		}
	}
	return ""
}

// cutAtWord returns the first words of a text, at most maxErrorText bytes, or "" if the first word
// is longer.
func cutAtWord(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxErrorText {
		return text
	}
	return text[:max(0, strings.LastIndexAny(text[:maxErrorText], " \t"))]
}
