package words

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestFacts(t *testing.T) {
	for text, want := range map[string][]Fact{
		``: nil,
		`{"token": 9007199254740993, "run": "0195", "wait": true, "params": null}`: {
			{"params", "none"}, {"run", "0195"}, {"token", "9007199254740993"}, {"wait", "yes"}},
		`{"spec": {"handler": "sql", "tables": ["a", "b"], "retry": {"max_attempts": 3}}}`: {
			{"spec handler", "sql"}, {"spec retry max attempts", "3"}, {"spec tables", "a, b"}},
		`{"locks": [{"a": 1}], "none": [], "empty": {}}`: {
			{"empty", "{}"}, {"locks", `[{"a":1}]`}, {"none", ""}},
		`"redacted"`: {{"", "redacted"}},
		`{`:          {{"", "{"}},
	} {
		if got := Facts(json.RawMessage(text)); !slices.Equal(got, want) {
			t.Errorf("Facts(%s) is %q, want %q", text, got, want)
		}
	}
}

// TestTimesOfFacts checks which values the page shows in the zone of its viewer.
func TestTimesOfFacts(t *testing.T) {
	const at = "2026-03-14T02:30:00.25Z"
	for fact, want := range map[Fact]bool{
		{"scheduled at", at}: true, {"from", "2026-03-14T03:30:00+01:00"}: true,
		{"params day", at}: false, {"params", at}: false, {"spec schedule", at}: false,
		{"key", "release-4711"}: false, {"to", "2026-03-14"}: false,
	} {
		if got := fact.Time() != nil; got != want {
			t.Errorf("%v is a time: %t, want %t", fact, got, want)
		}
	}
}
