package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkAfter returns a copy of the names of dependencies, or an error if one is empty or repeated.
func checkAfter(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, errors.New("after: found no jobs, expected at least one")
	}
	for i, name := range names {
		switch {
		case strings.TrimSpace(name) == "":
			return nil, errors.New("after: found an empty name, expected a job's")
		case slices.Contains(names[:i], name):
			return nil, fmt.Errorf("after: found %q a second time, expected each job once", name)
		}
	}
	return slices.Clone(names), nil
}

// splitNames parses names that are separated by commas. A quoted name may contain any characters.
func splitNames(text string) ([]string, error) {
	names := []string{}
	for {
		text = strings.TrimSpace(text)
		if quoted, err := strconv.QuotedPrefix(text); err == nil {
			name, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			names, text = append(names, name), strings.TrimSpace(text[len(quoted):])
			if text == "" {
				return names, nil
			}
			if text[0] != ',' {
				return nil, fmt.Errorf("after: found %q behind a name, expected a comma", text)
			}
			text = text[1:]
			continue
		}
		name, rest, more := strings.Cut(text, ",")
		names = append(names, strings.TrimSpace(name))
		if !more {
			return names, nil
		}
		text = rest
	}
}

// joinNames formats names as splitNames parses them.
func joinNames(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = name
		if quoted := strconv.Quote(name); strings.ContainsAny(name, ",'`") ||
			quoted != `"`+name+`"` || strings.TrimSpace(name) != name {
			texts[i] = quoted
		}
	}
	return strings.Join(texts, ",")
}
