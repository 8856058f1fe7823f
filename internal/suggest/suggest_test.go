package suggest

import "testing"

func TestOf(t *testing.T) {
	keys := []string{"tables", "read_tables", "timeout", "timezone", "name"}
	for name, want := range map[string]string{
		"tabels": "tables", "table": "tables", "Tables": "tables", "readtables": "read_tables", "read-tables": "read_tables",
		"time_out": "timeout", "tiemzone": "timezone", "nmae": "name", "n": "", "colour": "", "": "", "xyzzy": "",
	} {
		if got := Of(name, keys); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestEdits(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "a", 0}, {"a", "b", 1}, {"ab", "ba", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"", "abc", 3}, {"über", "uber", 1},
	} {
		if got := edits(test.a, test.b, 100); got != test.want {
			t.Errorf("%q to %q: got %d, want %d", test.a, test.b, got, test.want)
		}
		if got := edits(test.b, test.a, 100); got != test.want {
			t.Errorf("%q to %q: got %d, want %d", test.b, test.a, got, test.want)
		}
	}
}
