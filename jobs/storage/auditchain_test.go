package storage_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The hash depends on the value of the detail and on nothing else of its text.
func TestLinkCoversTheDetail(t *testing.T) {
	link := func(detail string) (storage.AuditHash, error) {
		return storage.Audited{Actor: "ann", Detail: json.RawMessage(detail)}.Link(
			storage.AuditHash{})
	}
	want, err := link(`{"a": 1, "b": [1.0, "x"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := link(`{"b":[1.0,"x"],"a":1}`); err != nil || got != want {
		t.Errorf("the same value in another text: got %s, %v, want %s", got, err, want)
	}
	for _, other := range []string{`{"a": 1, "b": [1, "x"]}`, `{"a": 1}`, ``} {
		if got, err := link(other); err != nil || got == want {
			t.Errorf("%q: got %s, %v, want another hash", other, got, err)
		}
	}
	for _, wrong := range []string{`{"a": 1, "b": [1.0, "x"]} x`, `{"a": 1}{"a": 1}`, `{"a"`} {
		if got, err := link(wrong); err == nil {
			t.Errorf("%q: got %s, want an error", wrong, got)
		}
	}
}
