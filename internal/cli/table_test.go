package cli

import (
	"bytes"
	"testing"
)

func TestTablesCutTheLastColumnFirst(t *testing.T) {
	rows := [][]string{{"a", "2", "first of the long cells", "second of the long cells"},
		{"b", "", "ü", "x"}}
	for _, c := range []struct {
		width int
		wide  bool
		want  string
	}{
		{0, false, "A  ONE                      TWO\n" +
			"a  first of the long cells  second of the long cells\nb  ü                        x\n"},
		{52, false, "A  ONE                      TWO\n" +
			"a  first of the long cells  second of the long cells\nb  ü                        x\n"},
		{51, false, "A  ONE                      TWO\n" +
			"a  first of the long cells  second of the long cel…\nb  ü                        x\n"},
		{40, false, "A  ONE                      TWO\n" +
			"a  first of the long cells  second of t…\nb  ü                        x\n"},
		{30, false, "A  ONE            TWO\na  first of the…  second of t…\nb  ü              x\n"},
		// neither can become shorter
		{10, false, "A  ONE           TWO\na  first of th…  second of t…\nb  ü             x\n"},
		{10, true, "A  B  ONE                      TWO\n" +
			"a  2  first of the long cells  second of the long cells\n" +
			"b     ü                        x\n"},
	} {
		var out bytes.Buffer
		table := newTextTable("A\t~B\t…ONE\t…TWO", rows, c.wide)
		table.fit(c.width)
		if err := table.write(&out); err != nil || out.String() != c.want {
			t.Errorf("width %d: got (%v)\n%s\nwant\n%s", c.width, err, out.String(), c.want)
		}
	}
}
