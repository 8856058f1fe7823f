package storage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rawDetail marks a detail whose text is hashed, because its value does not determine its text. No
// JSON begins with it.
const rawDetail = "raw:"

// Link returns the hash of the link of l. The argument previous is the hash of the link before it.
// The hash covers all fields of l. docs/operations.md specifies it.
func (l Audited) Link(previous AuditHash) AuditHash {
	text := previous[:]
	for _, field := range []string{l.ID.String(), strconv.FormatInt(l.At.UnixMicro(), 10), l.Actor,
		l.Via, l.Proof, l.Client, l.RequestID, l.Replica, l.Action, l.Target, l.Reason,
		detailText(l.Detail) + invalidText(l.InvalidDetail)} {
		text = binary.BigEndian.AppendUint64(text, uint64(len(field)))
		text = append(text, field...)
	}
	return sha256.Sum256(text)
}

// detailText returns the text of a detail for its hash. A detail that sortedJSON refuses has its
// own text after a mark, so that it cannot keep later entries from their links.
func detailText(detail json.RawMessage) string {
	if len(detail) == 0 {
		return ""
	}
	if text, err := sortedJSON(detail); err == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, detail) == nil {
		return rawDetail + compact.String() // as an export has it
	}
	return invalidText(detail)
}

// invalidText returns the text of a detail that is not JSON for its hash.
func invalidText(detail []byte) string {
	if len(detail) == 0 {
		return ""
	}
	return rawDetail + string(detail)
}

// sortedJSON returns JSON without spaces and with sorted keys. Numbers keep their digits. It
// refuses texts that a decoder would not distinguish from others: a key twice in an object, and
// replacement characters, which the decoder writes for invalid UTF-8 and invalid escapes.
func sortedJSON(text json.RawMessage) (string, error) {
	if !json.Valid(text) {
		return "", errors.New("expected JSON")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := uniqueValue(decoder)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// uniqueValue reads one value. A key that its object has twice is an error.
func uniqueValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for decoder.More() {
			item, err := uniqueValue(decoder)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err := decoder.Token()
		return list, err
	case json.Delim('{'):
		return uniqueObject(decoder)
	}
	if text, isText := token.(string); isText && strings.ContainsRune(text, utf8.RuneError) {
		return nil, errors.New("expected no replacement character")
	}
	return token, nil
}

// uniqueObject reads an object after its opening brace.
func uniqueObject(decoder *json.Decoder) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, isText := token.(string)
		if !isText || strings.ContainsRune(key, utf8.RuneError) {
			return nil, fmt.Errorf("expected a key without replacement characters, found %v", token)
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("key %q occurs twice", key)
		}
		if object[key], err = uniqueValue(decoder); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}
