package storage

import (
	"slices"
	"testing"
)

// TestDecodeDatabases checks that a text of another version leaves out the databases.
func TestDecodeDatabases(t *testing.T) {
	states := []DatabaseState{{Name: "warehouse"}, {Name: "archive"}}
	encoded, err := EncodeDatabases(states)
	if err != nil {
		t.Fatal(err)
	}
	if got := DecodeDatabases(encoded); !slices.Equal(got, states) {
		t.Errorf("got %+v, want %+v", got, states)
	}
	for _, text := range []string{"", "[]", "{", `[{"database": 1}]`, `{"warehouse": {}}`} {
		if got := DecodeDatabases(text); got != nil {
			t.Errorf("%q: got %+v, want none", text, got)
		}
	}
}
