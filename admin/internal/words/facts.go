package words

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Fact is a name with a value.
type Fact struct{ Name, Value string }

// Time returns the value as a time, or nil if it is none. Values of params and of definitions are
// texts, which people compare with what they wrote.
func (f Fact) Time() *time.Time {
	for _, text := range []string{"params", "spec"} {
		if f.Name == text || strings.HasPrefix(f.Name, text+" ") {
			return nil
		}
	}
	at, err := time.Parse(time.RFC3339, f.Value)
	if err != nil {
		return nil
	}
	return &at
}

// Facts lists the fields of a JSON object by name. Fields of an inner object have both names:
// "spec handler". A value that is no object is one fact without a name.
func Facts(text json.RawMessage) []Fact {
	if len(text) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a token may be larger than a float holds exactly
	var value any
	if err := decoder.Decode(&value); err != nil {
		return []Fact{{"", string(text)}}
	}
	return factsOf("", value)
}

func factsOf(name string, value any) []Fact {
	fields, isObject := value.(map[string]any)
	if !isObject || len(fields) == 0 {
		return []Fact{{name, factValue(value)}}
	}
	var facts []Fact
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		inner := strings.TrimSpace(name + " " + strings.ReplaceAll(key, "_", " "))
		facts = append(facts, factsOf(inner, fields[key])...)
	}
	return facts
}

// factValue formats a value that is no object with fields.
func factValue(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case bool:
		if value {
			return "yes"
		}
		return "no"
	case nil:
		return "none"
	case json.Number:
		return value.String()
	case []any:
		texts := make([]string, 0, len(value))
		for _, one := range value {
			if _, nested := one.(map[string]any); nested {
				break
			}
			texts = append(texts, factValue(one))
		}
		if len(texts) == len(value) {
			return strings.Join(texts, ", ")
		}
	}
	text, err := json.Marshal(value)
	if err != nil { // decoded JSON can be encoded again
		return "unknown"
	}
	return string(text)
}
