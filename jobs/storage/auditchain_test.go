package storage_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// linked returns the hash of a link with the detail.
func linked(detail string) storage.AuditHash {
	return storage.Audited{Actor: "ann", Detail: json.RawMessage(detail)}.Link(storage.AuditHash{})
}

// The hash of valid JSON depends on its value and on nothing else of its text.
func TestLinkCoversTheDetail(t *testing.T) {
	want := linked(`{"a": 1, "b": [1.0, "x"]}`)
	if got := linked(`{"b":[1.0,"x"],"a":1}`); got != want {
		t.Errorf("the same value in another text: got %s, want %s", got, want)
	}
	for _, other := range []string{`{"a": 1, "b": [1, "x"]}`, `{"a": 1}`, ``, `null`,
		`{"a": 1, "b": [1.0, "x"]} x`, `{"a": 1}{"a": 1}`, `{"a"`} {
		if got := linked(other); got == want {
			t.Errorf("%q: got the same hash %s, want another one", other, got)
		}
	}
}

// Texts that a decoder reads as the same value have hashes of their own.
func TestLinkCoversTextsWithoutAValue(t *testing.T) {
	for _, texts := range [][2]string{
		{`{"a": 1, "a": 2}`, `{"a": 2}`},
		{`{"a": 1, "a": 2}`, `{"a": 3, "a": 2}`},
		{`{"b": [{"a": 1, "a": 2}]}`, `{"b": [{"a": 2}]}`},
		{"\"\xff\"", "\"\xfe\""},
		{`"\ud800"`, `"\ud801"`},
		{`{"\ud800": 1}`, `{"\ud801": 1}`},
		{`{"a"`, `{"a": `},
		{`{"a": 1}x`, `{"a": 1}y`},
	} {
		if linked(texts[0]) == linked(texts[1]) {
			t.Errorf("%s and %s have the same hash", texts[0], texts[1])
		}
	}
}

// The entry in docs/operations.md has the hash that the document states.
func TestDocumentedLink(t *testing.T) {
	document, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	vectors := regexp.MustCompile("(?m)^(\\{\"id\":.*\\})\n([0-9a-f]{64})$").FindAllSubmatch(
		document, -1)
	if len(vectors) != 2 {
		t.Fatalf("found %d entries with a hash, want 2", len(vectors))
	}
	var previous storage.AuditHash
	for _, vector := range vectors {
		var entry storage.Audited
		if err := json.Unmarshal(vector[1], &entry); err != nil {
			t.Fatal(err)
		}
		previous = entry.Link(previous)
		if got, want := previous.String(), string(vector[2]); got != want {
			t.Errorf("%s: got %s, the document states %s", vector[1], got, want)
		}
	}
}
