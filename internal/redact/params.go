package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Params returns the params of a job without secrets, for people. Besides the values, which are
// known to be secret, it replaces what usually is:
//
//   - values of keys such as password or api_token
//   - values of headers, except those of well-known harmless headers
//   - the user and the password in a URL, and secret parameters in its query
//   - texts after password=, --token, Bearer and the like, and private keys
//
// It may replace too much. It returns the mark alone for a text that is not JSON.
func Params(params json.RawMessage, values []string) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return json.RawMessage(`"` + Mark + `"`)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	g := guesser{New(values), values}
	if err := encoder.Encode(g.value(decoded, false)); err != nil {
		return json.RawMessage(`"` + Mark + `"`) // no value fails
	}
	// short values are found only in quotes
	text := g.mask.Text(strings.TrimSuffix(out.String(), "\n"))
	if !json.Valid([]byte(text)) {
		return json.RawMessage(`"` + Mark + `"`)
	}
	return json.RawMessage(text)
}

// guesser replaces known and probable secrets in decoded JSON.
type guesser struct {
	mask   *Mask
	values []string
}

// value returns a value without secrets. header says that it is a list of headers.
func (g guesser) value(v any, header bool) any {
	switch v := v.(type) {
	case map[string]any:
		shown := make(map[string]any, len(v))
		for key, inner := range v {
			switch {
			case secretName(key) || header && !harmlessHeader(key):
				inner = hidden(inner)
			default:
				inner = g.value(inner, strings.EqualFold(key, "headers"))
			}
			shown[g.mask.Text(key)] = inner
		}
		return shown
	case []any:
		return g.list(v)
	case string:
		return g.text(v)
	case json.Number:
		if slices.Contains(g.values, v.String()) {
			return Mark
		}
	}
	return v
}

// list returns a list without secrets. In a command, a secret may follow its option.
func (g guesser) list(items []any) []any {
	shown := make([]any, len(items))
	for i, item := range items {
		shown[i] = g.value(item, false)
		if i == 0 {
			continue
		}
		option, isText := items[i-1].(string)
		if isText && strings.HasPrefix(option, "-") && !strings.Contains(option, "=") &&
			secretName(option) {
			shown[i] = hidden(item)
		}
	}
	return shown
}

// hidden returns the mark, or the value if there is nothing to hide.
func hidden(v any) any {
	if v == nil || v == "" {
		return v
	}
	return Mark
}

func (g guesser) text(s string) string {
	s = g.mask.Text(s)
	s = privateKey.ReplaceAllString(s, Mark)
	s = userInfo.ReplaceAllString(s, "$1"+Mark+"@")
	s = queryField.ReplaceAllStringFunc(s, func(field string) string {
		name, _, _ := strings.Cut(field[1:], "=")
		if secretName(name) || slices.Contains([]string{"key", "sig", "code"},
			strings.ToLower(name)) {
			return field[:1] + name + "=" + Mark
		}
		return field
	})
	s = credentials.ReplaceAllString(s, "$1 "+Mark)
	s = quotedValue.ReplaceAllString(s, "$1'"+Mark+"'")
	return plainValue.ReplaceAllString(s, "${1}"+Mark)
}

// secretWords are found in names of secret values. Names are compared without -, _ and case.
const secretWords = `password|passwd|passphrase|pwd|secret|token|credential|authorization|cookie|` +
	`signature|api[_-]?key|access[_-]?key|private[_-]?key|x-auth`

var (
	secretNames = regexp.MustCompile(`(?i)` + secretWords + `|^auth$`)
	privateKey  = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END ` +
		`[A-Z ]*PRIVATE KEY-----|$)`)
	userInfo    = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#'"]*@`)
	queryField  = regexp.MustCompile(`[?&][^=&\s'"#]+=[^&\s'"#]+`)
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	quotedValue = regexp.MustCompile(`(?i)([\w-]*(?:` + secretWords +
		`)[\w-]*["']?\s*(?:=>|:=|=|:|,)?\s*)(?:[eE]?'(?:[^']|'')*'|"[^"]*")`)
	plainValue = regexp.MustCompile(`(?i)([\w-]*(?:` + secretWords +
		`)[\w-]*\s*(?:=>|:=|=|:)\s*)[^\s'"\[;,)&]+`)
)

func secretName(name string) bool { return secretNames.MatchString(name) }

// harmlessHeader reports whether the value of a header cannot be a secret.
func harmlessHeader(name string) bool {
	return slices.Contains([]string{"accept", "accept-charset", "accept-encoding",
		"accept-language", "cache-control", "content-encoding", "content-language",
		"content-type", "host", "user-agent"}, strings.ToLower(name))
}
