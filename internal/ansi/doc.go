// Package ansi turns the output of programs into lines of text with CSS classes. It interprets the
// colours of ANSI escape sequences, removes other complete sequences, and never returns a control
// character. The caller must still escape the text for HTML.
package ansi
