package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/ansi"
	"github.com/holdfast-dev/holdfast/internal/plural"
)

// Number writes small numbers as words.
func Number(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
		"ten", "eleven", "twelve"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

// Plural writes a number, small ones as words, with the singular or the plural of a noun.
func Plural(n int, one, many string) string {
	return Number(n) + " " + plural.Word(n, one, many)
}

// Verb returns one if n is 1, else many.
func Verb(n int, one, many string) string {
	return plural.Word(n, one, many)
}

// Figure writes a number in figures, with the singular or the plural of a noun.
func Figure(n int, one, many string) string { return Count(n) + " " + Verb(n, one, many) }

// PlainFigure is Figure without commas, for sentences of the API. Pages show them with Grouped.
func PlainFigure(n int, one, many string) string {
	return plural.Of(n, one, many)
}

// Count writes a number of things with commas between its thousands: 25,884.
func Count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted is a number from 1,000 on before a word that the sentences of the API have after counts.
// Numbers before other words may be ports or parts of names.
var counted = regexp.MustCompile(`(^|[ (])(\d{4,}) (conflicts|connections|deliveries|entries|` +
	`firings|jobs|live|longest|more|of|other|replicas|resources|running|runs|scheduled|sign-ins|` +
	`tables|times|waiting|waits)\b`)

// Grouped returns a sentence of the API with commas in its counts, as Count writes them.
func Grouped(s string) string {
	return counted.ReplaceAllStringFunc(s, func(all string) string {
		part := counted.FindStringSubmatch(all)
		n, err := strconv.Atoi(part[2])
		if err != nil {
			return all // it is too large for a count
		}
		return part[1] + Count(n) + " " + part[3]
	})
}

// About writes a number with three significant digits: 1,230 or 11 million.
func About(n int) string {
	n = roundedTo3(n)
	switch {
	case n >= 1e9:
		return trimmed(n, 1e9) + " billion"
	case n >= 1e6:
		return trimmed(n, 1e6) + " million"
	}
	return Count(n)
}

// Brief is About in few letters: 12.3k or 11M.
func Brief(n int) string {
	n = roundedTo3(n)
	switch {
	case n >= 1e9:
		return trimmed(n, 1e9) + "B"
	case n >= 1e6:
		return trimmed(n, 1e6) + "M"
	case n >= 1e3:
		return trimmed(n, 1e3) + "k"
	}
	return Count(n)
}

// roundedTo3 rounds a number to three significant digits.
func roundedTo3(n int) int {
	unit := 1
	for n/unit >= 1000 {
		unit *= 10
	}
	return (n + unit/2) / unit * unit
}

// trimmed writes a number in units, without zeros at the end of the fraction.
func trimmed(n int, unit float64) string {
	return strconv.FormatFloat(float64(n)/unit, 'f', -1, 64)
}

// Title capitalizes a text of this package.
func Title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Sentence adds a full stop.
func Sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// Span formats a duration in two units: "42 s", "3 min 5 s", "2 h 10 min", "4 d 3 h".
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0).Truncate(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, day, "d", time.Hour, "h")
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/big, bigName)
	if rest := d % big / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// Took formats the duration of a run, with milliseconds if it is short.
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return Span(d)
}

// Readable returns a text of the API with the durations and counts of the page, with short ids of
// runs, and with times that the page's script finds.
func Readable(s string) string {
	s = isoTime.ReplaceAllStringFunc(s, func(text string) string {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return text // it only looks like a time
		}
		return UTC(at)
	})
	s = Grouped(namedRun.ReplaceAllString(s, "(run …$1)"))
	return statedDuration.ReplaceAllStringFunc(s,
		func(all string) string {
			before, text, _ := strings.Cut(all, " ")
			d, err := time.ParseDuration(text)
			if err != nil {
				return all // it only looks like a duration
			}
			return before + " " + Took(d)
		})
}

// namedRun is the id of a run in a text of the API, and statedDuration is a duration after a word
// that tells it from a name.
var (
	namedRun       = regexp.MustCompile(`\(run [0-9a-f-]{28}([0-9a-f]{8})\)`)
	statedDuration = regexp.MustCompile(`\b(in|within|after|for) (\d[\dhmsµ.]*[hms])\b`)
)

// isoTime is a time in the form of RFC 3339, as texts of the API have it.
var isoTime = regexp.MustCompile(
	`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)

// Cut returns s without escape sequences, or its first n characters and an ellipsis.
func Cut(s string, n int) string {
	if strings.ContainsRune(s, '\x1b') {
		s = ansi.Plain(s) // it also replaces direction marks, which a page isolates
	}
	count := 0
	for i := range s {
		if count++; count > n {
			return s[:i] + "…"
		}
	}
	return s
}

// OneLine returns s on one line, cut to at most n characters.
func OneLine(s string, n int) string { return Cut(strings.Join(strings.Fields(s), " "), n) }

// List joins texts with commas.
func List[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return strings.Join(texts, ", ")
}

// Names lists names of replicas, as many as fit on the page.
func Names(list []string) string {
	const most = 20
	if len(list) == 0 {
		return "–"
	}
	shown := make([]string, 0, most)
	for _, name := range list[:min(len(list), most)] {
		shown = append(shown, Cut(name, 60))
	}
	text := strings.Join(shown, ", ")
	if more := len(list) - most; more > 0 {
		text += " and " + Count(more) + " more"
	}
	return text
}

// Prefix returns the beginning of a hash.
func Prefix(s string, n int) string { return s[:min(n, len(s))] }

// Indented formats JSON for people.
func Indented(text json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return string(text)
	}
	return out.String()
}

// numberAndUnit is a number before a unit of time.
var numberAndUnit = regexp.MustCompile(`(\d) (ms|s|min|h|d)\b`)

// Unbroken joins each number with its unit, so that no line of a page ends between them.
func Unbroken(s string) string { return numberAndUnit.ReplaceAllString(s, "$1\u00a0$2") }
