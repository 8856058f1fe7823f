package markup

import "strings"

// Builder builds HTML or SVG. The zero value is empty.
type Builder struct{ out strings.Builder }

// escaper escapes a text as html/template does.
var escaper = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;",
	"+", "&#43;", "<", "&lt;", ">", "&gt;")

// Add appends texts that are markup, and texts that are not and are escaped: the second, the fourth
// and so on. The latter may also be values of attributes in quotes.
func (b *Builder) Add(parts ...string) {
	for i, part := range parts {
		if i%2 == 1 {
			part = escaper.Replace(part)
		}
		b.out.WriteString(part)
	}
}

// Grow makes room for so many bytes.
func (b *Builder) Grow(n int) { b.out.Grow(n) }

// AddText appends a text that is not markup and is escaped.
func (b *Builder) AddText(text string) { b.Add("", text) }

// AddIf appends a text that is markup if a condition is true.
func (b *Builder) AddIf(condition bool, text string) {
	if condition {
		b.out.WriteString(text)
	}
}

// String returns what was appended.
func (b *Builder) String() string { return b.out.String() }
