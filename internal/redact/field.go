package redact

import "encoding/json"

// Field returns the JSON object with the mark as the value of a field that it has. It returns the
// mark alone for a text that is no object.
func Field(object json.RawMessage, name string) json.RawMessage {
	if len(object) == 0 {
		return object
	}
	mark, err := json.Marshal(Mark)
	if err != nil {
		return nil // no text fails
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return mark
	}
	if _, has := fields[name]; !has {
		return object
	}
	fields[name] = mark
	redacted, err := json.Marshal(fields)
	if err != nil {
		return mark
	}
	return redacted
}
