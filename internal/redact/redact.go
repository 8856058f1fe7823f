// Package redact replaces secret values in texts. It is the one place that decides which forms of a
// value are found, and how the replacement looks.
//
// A value is found as it is, and encoded for URLs, JSON, Go strings, base64 and hexadecimal digits.
// Of a value that is a URL with a scheme, the scheme and the host stay. The parts of a URL are also
// found alone, without a scheme only if it has a user. Values of less than 5 bytes are found only
// in quotes. If each "1" or "prod" in a text were replaced, the text would be of no use, and the
// replacements would reveal the value. A value that is split, hashed or compressed is not found.
package redact

import (
	"cmp"
	"io"
	"slices"
	"strings"
)

// Mark stands for a secret value.
const Mark = "[redacted]"

// Mask replaces values in texts. A nil *Mask replaces nothing. It may be used concurrently.
type Mask struct {
	replacer *strings.Replacer
	longest  int
}

// New returns a mask of the values, or nil without values. It takes time in proportion to their
// length.
func New(values []string) *Mask {
	f := forms{}
	for _, value := range values {
		f.addValue(value)
	}
	if len(f) == 0 {
		return nil
	}
	found := make([]string, 0, len(f))
	for text := range f {
		found = append(found, text)
	}
	// of two forms that begin at the same place, the longer one counts
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(found))
	for _, text := range found {
		pairs = append(pairs, text, f[text])
	}
	return &Mask{strings.NewReplacer(pairs...), len(found[0])}
}

// Longest returns the length of the longest text that is replaced, in bytes.
func (m *Mask) Longest() int {
	if m == nil {
		return 0
	}
	return m.longest
}

// Text returns the text with each value replaced.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	return m.replacer.Replace(text)
}

// Error returns an error with the masked text of err, which wraps err.
func (m *Mask) Error(err error) error {
	if m == nil || err == nil {
		return err
	}
	text := err.Error()
	if masked := m.Text(text); masked != text {
		return &maskedError{masked, err}
	}
	return err
}

type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }

func (e *maskedError) Unwrap() error { return e.cause }

// Writer returns a writer that masks each text that is written to w with one call.
func (m *Mask) Writer(w io.Writer) io.Writer {
	if m == nil {
		return w
	}
	return &writer{m, w}
}

type writer struct {
	mask *Mask
	to   io.Writer
}

// Write reports the length of p, because the masked text may have another.
func (w *writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.mask.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
