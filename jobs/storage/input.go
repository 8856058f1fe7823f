package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

// ErrBadInput says that input of an operator is missing, too long or not plain text. A
// *BadInputError has the details.
var ErrBadInput = errors.New("bad input")

// BadInputError says which input is invalid, and why.
type BadInputError struct {
	Field   string // "actor", "reason", "key", "job", …
	Problem string // what was found and what is expected
}

// Error names the field and the problem.
func (e *BadInputError) Error() string { return e.Field + ": " + e.Problem }

// Unwrap returns ErrBadInput.
func (e *BadInputError) Unwrap() error { return ErrBadInput }

// Limits of input of operators, in bytes.
const (
	MaxNameBytes   = 200       // of actors, keys, jobs, groups and replicas
	MaxReasonBytes = 500       // of an action's reason
	MaxTextBytes   = 256 << 10 // of a spec, and of trigger params
)

// Check returns a *BadInputError if the action is invalid.
func (a Action) Check() error {
	if !slices.Contains([]string{"page", "api", "cli", "go"}, a.Via) {
		return &BadInputError{"via",
			fmt.Sprintf(`found %q, expected "page", "api", "cli" or "go"`, a.Via)}
	}
	if !slices.Contains([]string{"", "password", "token", "proxy", "oidc", "program", "none"},
		a.Proof) {
		return &BadInputError{"proof", fmt.Sprintf(
			`found %q, expected "password", "token", "proxy", "oidc", "program" or "none"`,
			a.Proof)}
	}
	return errors.Join(
		checkText("actor", a.Actor, 1, MaxNameBytes),
		checkText("client", a.Client, 0, MaxNameBytes),
		checkText("request id", a.RequestID, 0, MaxNameBytes),
		checkText("replica", a.Replica, 0, MaxNameBytes),
		checkReason(a.Reason), checkText("key", a.Key, 0, MaxNameBytes))
}

// Check returns a *BadInputError if the target is invalid.
func (t Target) Check() error {
	switch t.Kind {
	case TargetAll:
		return checkText("name of everything", t.Name, 0, 0)
	case TargetJob, TargetGroup:
		return checkText(string(t.Kind), t.Name, 1, MaxNameBytes)
	default:
		return &BadInputError{"target",
			fmt.Sprintf(`found the kind %q, expected "job", "group" or "all"`, t.Kind)}
	}
}

// Check returns a *BadInputError if the request is invalid.
func (r TriggerRequest) Check() error {
	err := errors.Join(checkText("job", r.Job, 1, MaxNameBytes),
		checkText("key", r.Key, 0, MaxNameBytes), r.checkWait(), r.checkBegin())
	if err != nil || r.Params == nil {
		return err
	}
	return checkObject("params", r.Params)
}

// Check returns a *BadInputError if the spec is invalid. It does not check the job in Text.
func (s Spec) Check() error {
	if s.Version < 0 {
		return &BadInputError{"version",
			fmt.Sprintf("found %d, expected the one that was seen, or 0 for a new job", s.Version)}
	}
	if err := checkText("job", s.Job, 1, MaxNameBytes); err != nil {
		return err
	}
	return checkObject("spec", s.Text)
}

// Check returns a *BadInputError if the request names no resource or no token.
func (r ReleaseRequest) Check() error {
	if r.Resource.IsZero() {
		return &BadInputError{"resource", "found none"}
	}
	if r.Token <= 0 {
		return &BadInputError{"token", fmt.Sprintf("found %d, expected the holder's", r.Token)}
	}
	return nil
}

// Check returns a *BadInputError if the filter is invalid.
func (f AuditFilter) Check() error {
	return errors.Join(
		checkText("actor", f.Actor, 0, MaxNameBytes),
		checkText("action", f.Action, 0, MaxNameBytes), checkText("target", f.Target, 0, 2<<10))
}

// checkReason allows characters that change the direction of text, which some languages need.
func checkReason(reason string) error {
	return checkCharacters("reason", reason, 0, MaxReasonBytes, unicode.IsControl)
}

// checkText checks a name.
func checkText(field, text string, least, most int) error {
	return checkCharacters(field, text, least, most, runes.IsControl)
}

func checkCharacters(field, text string, least, most int, refused func(rune) bool) error {
	switch {
	case len(text) < least:
		return &BadInputError{field, "found nothing"}
	case len(text) > most:
		return &BadInputError{field,
			fmt.Sprintf("found %d bytes, expected at most %d", len(text), most)}
	case !utf8.ValidString(text):
		return &BadInputError{field, fmt.Sprintf("%q is not valid UTF-8", text)}
	}
	if i := strings.IndexFunc(text, refused); i >= 0 {
		return &BadInputError{field, fmt.Sprintf("%q has a control character at byte %d", text, i)}
	}
	return nil
}

// checkObject accepts one JSON object that PostgreSQL accepts too: without NUL characters and
// without unpaired surrogates.
func checkObject(field string, text json.RawMessage) error {
	if len(text) > MaxTextBytes {
		return &BadInputError{field,
			fmt.Sprintf("found %d bytes, expected at most %d", len(text), MaxTextBytes)}
	}
	if !utf8.Valid(text) {
		return &BadInputError{field, "is not valid UTF-8"}
	}
	value, err := canonical(text)
	if err != nil || !json.Valid(text) {
		return &BadInputError{field, "is not valid JSON"}
	}
	if _, object := value.(map[string]any); !object {
		return &BadInputError{field, "expected an object"}
	}
	if bytes.ContainsRune(plainStrings(text), 0) {
		return &BadInputError{field, "has a NUL character, or half of a character"}
	}
	return nil
}

// plainStrings returns the text with a NUL in place of each escape that PostgreSQL cannot store:
// \u0000 and unpaired surrogates.
func plainStrings(text []byte) []byte {
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		first := hexOf(text[i+1:])
		i += 4
		switch {
		case first == 0:
			out = append(out, 0)
		case 0xD800 <= first && first < 0xDC00 && i+6 < len(text) && text[i+1] == '\\' &&
			text[i+2] == 'u' && 0xDC00 <= hexOf(text[i+3:]) && hexOf(text[i+3:]) < 0xE000:
			i += 6
		case 0xD800 <= first && first < 0xE000:
			out = append(out, 0)
		}
	}
	return out
}

// hexOf returns the value of four hexadecimal digits.
func hexOf(digits []byte) int {
	number := 0
	for _, d := range digits[:4] {
		switch {
		case d <= '9':
			number = number<<4 | int(d-'0')
		default:
			number = number<<4 | int(d|0x20-'a') + 10
		}
	}
	return number
}

// SameParams reports whether two trigger params are equal. The order of keys does not matter, and
// nil equals {}.
func SameParams(a, b json.RawMessage) bool {
	first, err := canonical(a)
	second, other := canonical(b)
	return err == nil && other == nil && reflect.DeepEqual(first, second)
}

// Conflict returns an ErrConflict which says that the spec differs from the version that the caller
// has seen.
func (s Spec) Conflict(seen int64) error {
	what := fmt.Sprintf("was changed to version %d", s.Version)
	switch {
	case s.Removed:
		what = "was removed"
	case seen == 0:
		what = "is there already, at version " + fmt.Sprint(s.Version)
	}
	return fmt.Errorf("job %s %s by %s: %w", s.Job, what, s.ChangedBy, ErrConflict)
}
