package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

const (
	templateOpen  = "{{"
	templateClose = "}}"
	// literalOpen stands for {{ in the text around templates.
	literalOpen = `{{"{{"}}`
)

// piece is a part of a text with templates: text as it is, or a value.
type piece struct {
	text   string
	name   string // of the value; "" for text
	layout string // of a time, such as %Y-%m-%d; "" is RFC 3339
}

// parseTemplate splits a text at its templates: {{name}} or, for times, {{name:%Y-%m-%d}}. It does
// not quote the text in errors, because it may be secret.
func parseTemplate(text string) ([]piece, error) {
	var pieces []piece
	for {
		before, rest, found := strings.Cut(text, templateOpen)
		if before != "" {
			pieces = append(pieces, piece{text: before})
		}
		if !found {
			return pieces, nil
		}
		if after, literal := strings.CutPrefix(templateOpen+rest, literalOpen); literal {
			pieces, text = append(pieces, piece{text: templateOpen}), after
			continue
		}
		inner, after, closed := strings.Cut(rest, templateClose)
		if !closed {
			return nil, fmt.Errorf("found %s without %s; write %s for the characters themselves",
				templateOpen, templateClose, literalOpen)
		}
		name, layout, _ := strings.Cut(inner, ":")
		name = strings.TrimSpace(name)
		if !isName(name) {
			return nil, fmt.Errorf("found %s%s%s, expected a name such as %sscheduled_at%s; write "+
				"%s for the characters themselves", templateOpen, inner, templateClose,
				templateOpen, templateClose, literalOpen)
		}
		pieces, text = append(pieces, piece{name: name, layout: strings.TrimSpace(layout)}), after
	}
}

// hasTemplate reports whether a text has a template.
func hasTemplate(text string) bool {
	pieces, err := parseTemplate(text)
	return err == nil && slices.ContainsFunc(pieces, func(p piece) bool { return p.name != "" })
}

// usesPrevious reports whether a text has a template with the previous scheduled time.
func usesPrevious(texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		pieces, err := parseTemplate(text)
		return err == nil && slices.ContainsFunc(pieces, func(p piece) bool {
			return p.name == previousScheduledAt
		})
	})
}

// expander replaces templates by the facts of a run and the values of its job.
type expander struct {
	facts  map[string]any
	values Values
	names  []string // of all facts and values
	size   int      // bytes of the values in all texts up to now
}

// maxExpanded bounds the bytes of the values in all texts of a run. A value of 32 KB in thousands
// of places would fill the memory.
const maxExpanded = 1 << 20

var errExpanded = fmt.Errorf("the templates of the job expand to more than %d bytes", maxExpanded)

// newExpander returns the expander of a run for texts. It reads the previous scheduled time only if
// a text uses it.
func newExpander(ctx context.Context, run *jobs.Run, values Values,
	texts []string) (*expander, error) {
	facts, err := factsOf(ctx, run, usesPrevious(texts))
	return &expander{facts: facts, values: values, names: values.names()}, err
}

// sampleExpander returns an expander with invented facts, to check texts before there is a run.
func sampleExpander(values Values) *expander {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &expander{values: values, names: values.names(), facts: map[string]any{
		scheduledAt: at, previousScheduledAt: at, runID: uuid.UUID{}, jobName: jobName,
		fencingToken: int64(1), attemptNumber: int64(1),
	}}
}

// expand replaces the templates of a text. Values are escaped.
func (e *expander) expand(text string, escape func(string) string) (string, error) {
	pieces, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, p := range pieces {
		if p.name == "" {
			out.WriteString(p.text)
			continue
		}
		value, err := e.value(p, escape)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
	}
	return out.String(), nil
}

// value returns the escaped value of a template. It returns errExpanded if all values up to now are
// too long together.
func (e *expander) value(p piece, escape func(string) string) (string, error) {
	value, err := e.plainValue(p)
	if err != nil {
		return "", err
	}
	value = escape(value)
	if e.size += len(value); e.size > maxExpanded {
		return "", errExpanded
	}
	return value, nil
}

// plainValue returns the value of a template as text.
func (e *expander) plainValue(p piece) (string, error) {
	if !e.values.has(p.name) {
		return "", &unknownName{fmt.Sprintf("name %q", p.name), p.name, e.names}
	}
	value, isFact := e.facts[p.name]
	if !isFact {
		value = e.values[p.name]
	}
	if p.layout == "" {
		return text(value), nil
	}
	if p.name != scheduledAt && p.name != previousScheduledAt {
		return "", fmt.Errorf("found the form %q of %s, which is not a time", p.layout, p.name)
	}
	at, isTime := value.(time.Time)
	if !isTime { // there is no previous time
		return "", nil
	}
	return strftime(p.layout, at)
}

// asItIs escapes nothing.
func asItIs(value string) string { return value }

var errTimeForm = errors.New(
	"expected %Y, %m, %d, %H, %M, %S, %j (day of the year), %s (Unix time) or %%")

// strftime writes a time in the form of C's strftime.
func strftime(layout string, at time.Time) (string, error) {
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			out.WriteByte(layout[i])
			continue
		}
		if i++; i == len(layout) {
			return "", fmt.Errorf("found %% at the end of the form of a time: %w", errTimeForm)
		}
		switch layout[i] {
		case 'Y':
			out.WriteString(at.Format("2006"))
		case 'm':
			out.WriteString(at.Format("01"))
		case 'd':
			out.WriteString(at.Format("02"))
		case 'H':
			out.WriteString(at.Format("15"))
		case 'M':
			out.WriteString(at.Format("04"))
		case 'S':
			out.WriteString(at.Format("05"))
		case 'j':
			out.WriteString(at.Format("002"))
		case 's':
			out.WriteString(strconv.FormatInt(at.Unix(), 10))
		case '%':
			out.WriteByte('%')
		default:
			return "", fmt.Errorf("found %q in the form of a time: %w", layout[i-1:i+1],
				errTimeForm)
		}
	}
	return out.String(), nil
}
