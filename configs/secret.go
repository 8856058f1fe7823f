package configs

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/redact"
)

// Secret is text that is shown as "[redacted]" wherever it is printed,
// formatted or marshalled. Secrets are comparable.
type Secret struct{ text string }

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns "[redacted]", or "" for the zero Secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redact.Mark
}

// Format writes String, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText writes String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Params are the params of a job, a JSON object. The zero Params is an empty object. Printing and
// marshalling show ${ENV} as written.
type Params struct {
	value, written json.RawMessage
	secrets        []string
}

// JSON returns the params for a handler, with variables expanded. The caller must not change the
// result.
func (p Params) JSON() json.RawMessage { return orEmpty(p.value) }

// Secrets returns those texts in the params that must not be shown: values of variables, and URLs
// that contain a variable. The caller must not change the result.
func (p Params) Secrets() []string { return p.secrets }

// String returns the params as written.
func (p Params) String() string { return string(orEmpty(p.written)) }

// Format writes String, whatever the verb.
func (p Params) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// MarshalJSON writes the params as written.
func (p Params) MarshalJSON() ([]byte, error) { return orEmpty(p.written), nil }

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}
