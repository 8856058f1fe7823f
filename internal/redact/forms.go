package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	least        = 5  // bytes of a value that is found without quotes
	leastEncoded = 8  // characters of base64 and hexadecimal digits
	leastPart    = 12 // bytes of a path, query or line that is found alone
)

// forms are the texts that are found, with their replacements.
type forms map[string]string

// addValue adds the forms of a value.
func (f forms) addValue(value string) {
	if u, err := url.Parse(value); err == nil && u.Host != "" && (u.Scheme != "" || u.User != nil) {
		f.addURL(value, u)
		return
	}
	f.addText(value, Mark)
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); len(line) >= leastPart && line != value {
			f.addText(line, Mark)
		}
	}
}

// addURL adds the forms of a URL: with its host, and the parts behind it that are long enough to be
// found alone.
func (f forms) addURL(value string, u *url.URL) {
	behind := u.EscapedPath()
	if u.RawQuery != "" {
		behind += "?" + u.RawQuery
	}
	if password, given := u.User.Password(); given {
		f.addText(password, Mark)
	}
	if u.User != nil {
		f.addText(u.User.String()+"@"+u.Host, Mark+"@"+u.Host)
	}
	for _, tail := range []string{behind, u.EscapedPath(), u.Path} {
		if len(tail) > len("/") {
			f.addText(u.Host+tail, u.Host+"/"+Mark)
		}
		if len(tail) >= leastPart {
			f.addText(tail, "/"+Mark)
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= leastPart {
			f.addText(part, Mark)
		}
	}
	for _, list := range u.Query() {
		for _, part := range list {
			f.addText(part, Mark)
		}
	}
	switch {
	case u.Scheme == "": // perhaps no URL, but a secret that begins with //
		f.addText(value, Mark)
	case u.User != nil || len(behind) > len("/"):
		f.addText(value, u.Scheme+"://"+u.Host+"/"+Mark)
	}
}

// addText adds a text in all encodings.
func (f forms) addText(text, replacement string) {
	if len(text) < least {
		if text != "" {
			f[`"`+text+`"`] = `"` + replacement + `"`
		}
		return
	}
	for _, encoded := range []string{text, url.QueryEscape(text), url.PathEscape(text),
		inJSON(text, false), inJSON(text, true), inASCII(inJSON(text, false)),
		inQuotes(strconv.Quote(text)), inQuotes(strconv.QuoteToASCII(text))} {
		f[encoded] = replacement
	}
	digits := hex.EncodeToString([]byte(text))
	f[digits], f[strings.ToUpper(digits)] = Mark, Mark
	f.addBase64(text)
}

// addBase64 adds the base64 of a text within a longer one. It depends on the number of bytes before
// the text. Its first and last characters depend on the bytes beside it.
func (f forms) addBase64(text string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		f[encoding.EncodeToString([]byte(text))] = Mark
		for before := range 3 {
			padded := append(make([]byte, before), text...)
			inner := encoding.EncodeToString(padded[:len(padded)/3*3])
			if before > 0 && len(inner) >= 4 {
				inner = inner[4:] // has bits of what is before
			}
			if len(inner) >= leastEncoded {
				f[inner] = Mark
			}
		}
	}
}

// inJSON returns the text as in a string of JSON. Go's encoders escape HTML by default.
func inJSON(text string, escapeHTML bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(escapeHTML)
	if err := encoder.Encode(text); err != nil {
		return text // no text fails
	}
	return inQuotes(strings.TrimSuffix(out.String(), "\n"))
}

// inASCII returns a part of JSON in ASCII, as Python's json.dumps writes it.
func inASCII(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r <= '~' {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// inQuotes returns what is between the quotes of a quoted text.
func inQuotes(quoted string) string { return quoted[1 : len(quoted)-1] }
