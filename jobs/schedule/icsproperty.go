package schedule

import (
	"fmt"
	"strings"
)

// icsProperty is one line of an iCalendar file (RFC 5545, 3.1), unfolded.
type icsProperty struct {
	line   int
	name   string
	params map[string]string
	value  string
}

type textLine struct {
	number int
	text   string
}

// unfold joins folded lines: their continuations begin with a space.
func unfold(text string) []textLine {
	var lines []textLine
	number := 0
	for raw := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		number++
		raw = strings.TrimSuffix(raw, "\r")
		switch {
		case raw == "":
		case (raw[0] == ' ' || raw[0] == '\t') && len(lines) > 0:
			lines[len(lines)-1].text += raw[1:]
		default:
			lines = append(lines, textLine{number, raw})
		}
	}
	return lines
}

// parseProperty parses NAME;PARAM=value;PARAM="value","value":value.
func parseProperty(line textLine) (icsProperty, error) {
	p := icsProperty{line: line.number, params: map[string]string{}}
	end := strings.IndexAny(line.text, ";:")
	if end < 1 {
		return p, fmt.Errorf("found %q, expected a line such as DTSTART;VALUE=DATE:20261224",
			cutText(line.text))
	}
	p.name = strings.ToUpper(line.text[:end])
	rest := line.text[end:]
	for rest[0] == ';' {
		name, after, ok := strings.Cut(rest[1:], "=")
		if !ok {
			return p, fmt.Errorf("%s: found a parameter without a value, expected one such as "+
				"VALUE=DATE", p.name)
		}
		rest, ok = afterValue(after)
		for ok && strings.HasPrefix(rest, ",") {
			rest, ok = afterValue(rest[1:])
		}
		if !ok || rest == "" || rest[0] != ';' && rest[0] != ':' {
			return p,
				fmt.Errorf("%s: found a parameter without an end, expected a colon and a value",
					p.name)
		}
		p.params[strings.ToUpper(name)] = strings.Trim(strings.TrimSuffix(after, rest), `"`)
	}
	p.value = strings.TrimSpace(rest[1:])
	return p, nil
}

// afterValue returns the text after one value of a parameter. ok is false if the value has no end.
func afterValue(text string) (rest string, ok bool) {
	if quoted, isQuoted := strings.CutPrefix(text, `"`); isQuoted {
		_, rest, ok = strings.Cut(quoted, `"`)
		return rest, ok
	}
	end := strings.IndexAny(text, ",;:")
	if end < 0 {
		return "", false
	}
	return text[end:], true
}
