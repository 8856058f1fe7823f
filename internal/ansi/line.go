package ansi

import (
	"strings"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

// Line is one line of output.
type Line struct {
	N     int // its number, from 1
	Spans []Span
}

// Span is text of one style.
type Span struct {
	Class string // space-separated names of the form a-31; "" for plain text
	Text  string // without control characters, except tabs
}

// Text returns the text of the line without its styles.
func (l Line) Text() string {
	var b strings.Builder
	for _, s := range l.Spans {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Parse splits a text into lines, without a last empty line. A carriage return also ends a line,
// because it would overwrite text. Styles continue on the next line, as in a terminal. An escape
// sequence that is incomplete, longer than a terminal would accept or unknown is shown as text.
func Parse(text string) []Line {
	p := parser{rest: text}
	for p.rest != "" || p.open {
		p.step()
	}
	return p.lines
}

// Plain returns a text without escape sequences. It shows other control characters as Parse does,
// and ends lines with a line feed.
func Plain(text string) string {
	var b strings.Builder
	for _, line := range Parse(text) {
		if line.N > 1 {
			b.WriteByte('\n')
		}
		b.WriteString(line.Text())
	}
	if strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\r") {
		b.WriteByte('\n')
	}
	return b.String()
}

// parser is the state between two characters of a text.
type parser struct {
	rest  string
	style style
	class string // of style
	plain strings.Builder
	spans []Span
	open  bool // the current line has begun
	lines []Line
}

// step consumes an escape sequence, a line break, or a stretch of text.
func (p *parser) step() {
	if p.rest == "" {
		p.endLine()
		return
	}
	p.open = true
	switch {
	case strings.HasPrefix(p.rest, "\r\n"):
		p.rest = p.rest[2:]
		p.endLine()
	case p.rest[0] == '\n' || p.rest[0] == '\r':
		p.rest = p.rest[1:]
		p.endLine()
	case p.rest[0] == escape:
		p.sequence()
	default:
		p.text()
	}
}

// sequence consumes an escape sequence, or the escape character alone.
func (p *parser) sequence() {
	length, attributes := measure(p.rest)
	if length == 0 {
		writeVisible(&p.plain, escape)
		p.rest = p.rest[1:]
		return
	}
	p.rest = p.rest[length:]
	if next := p.style.apply(attributes); next != p.style {
		p.endSpan()
		p.style, p.class = next, next.class()
	}
}

// text consumes everything up to the next escape character or line break.
func (p *parser) text() {
	end := strings.IndexAny(p.rest, "\x1b\r\n")
	if end < 0 {
		end = len(p.rest)
	}
	for _, r := range p.rest[:end] {
		writeVisible(&p.plain, r)
	}
	p.rest = p.rest[end:]
}

func (p *parser) endSpan() {
	if p.plain.Len() > 0 {
		p.spans = append(p.spans, Span{Class: p.class, Text: p.plain.String()})
		p.plain.Reset()
	}
}

func (p *parser) endLine() {
	p.endSpan()
	p.lines = append(p.lines, Line{N: len(p.lines) + 1, Spans: p.spans})
	p.spans, p.open = nil, false
}

// writeVisible writes a control character as a caret and a letter, and other characters unchanged.
// Those beyond ASCII and those that change the direction of text become U+FFFD.
func writeVisible(b *strings.Builder, r rune) {
	switch {
	case r == '\t' || !runes.IsControl(r):
		b.WriteRune(r)
	case r <= 0x7f:
		b.WriteByte('^')
		b.WriteByte(byte(r) ^ 0x40)
	default:
		b.WriteRune('\ufffd')
	}
}
