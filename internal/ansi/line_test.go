package ansi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // class: before a text in parentheses, lines end with |
	}{
		"nothing":                {"", ""},
		"lines":                  {"a\nb\n\nc", "(a)|(b)||(c)|"},
		"line breaks of Windows": {"a\r\nb\r\n", "(a)|(b)|"},
		"a progress bar":         {"1 %\r2 %\n", "(1 %)|(2 %)|"},
		"colours":                {"\x1b[32mINFO\x1b[0m  done", "a-32(INFO)(  done)|"},
		"no parameter resets":    {"\x1b[1;31mx\x1b[my", "a-1 a-31(x)(y)|"},
		"an empty parameter":     {"\x1b[1mx\x1b[;my", "a-1(x)(y)|"},
		"styles continue":        {"\x1b[33ma\nb\x1b[39mc", "a-33(a)|a-33(b)(c)|"},
		"nested styles": {"\x1b[1ma\x1b[34mb\x1b[22mc\x1b[0md",
			"a-1(a)a-1 a-34(b)a-34(c)(d)|"},
		"a repeated style":           {"\x1b[31ma\x1b[31mb", "a-31(ab)|"},
		"bright colours":             {"\x1b[91ma\x1b[90mb", "a-31(a)a-90(b)|"},
		"a ground":                   {"\x1b[31;42ma", "a-42(a)|"},
		"inverse text":               {"\x1b[31;7ma\x1b[27mb", "a-7(a)a-31(b)|"},
		"256 colours":                {"\x1b[38;5;1ma\x1b[38;5;200;1mb", "a-31(a)a-1(b)|"},
		"true colours":               {"\x1b[38;2;255;0;0;4ma", "a-4(a)|"},
		"with colons":                {"\x1b[38:5:2ma", "a-32(a)|"},
		"an incomplete colour":       {"\x1b[38ma\x1b[48;5mb\x1b[38;9mc", "(abc)|"},
		"an unknown code":            {"\x1b[31ma\x1b[777mb", "a-31(ab)|"},
		"a code beyond all integers": {"\x1b[99999999999999999999ma", "(a)|"},
		"movements":                  {"a\x1b[2K\x1b[1A\x1b[?25lb", "(ab)|"},
		"private colours":            {"\x1b[?31ma", "(a)|"},
		"a title":                    {"\x1b]0;title\x07a", "(a)|"},
		"a link":                     {"\x1b]8;;javascript:alert(1)\x1b\\a\x1b]8;;\x1b\\", "(a)|"},
		"a character set":            {"\x1b(Ba\x1b7b", "(ab)|"},
		"HTML": {"\x1b[31m<script>alert(1)</script>",
			"a-31(<script>alert(1)</script>)|"},
		"HTML in parameters":        {"\x1b[31\"><script>m", "(^[[31\"><script>m)|"},
		"an unfinished sequence":    {"a\x1b[31", "(a^[[31)|"},
		"a sequence over two lines": {"a\x1b[3\n1mb", "(a^[[3)|(1mb)|"},
		"an unfinished title":       {"a\x1b]0;b\nc", "(a^[]0;b)|(c)|"},
		"a sequence in a title":     {"\x1b]0;a\x1b[31mb\x07", "(^[]0;a)a-31(b^G)|"},
		"a sequence in a sequence":  {"\x1b[3\x1b[32mx", "(^[[3)a-32(x)|"},
		"an escape at the end":      {"a\x1b", "(a^[)|"},
		"escapes":                   {"\x1b\x1b\x1b[31ma", "(^[^[)a-31(a)|"},
		"control characters":        {"a\x00\x07\b\x7f\u0085\u009bb\tc", "(a^@^G^H^?��b\tc)|"},
		"a change of direction":     {"a\u202eb\u2066c", "(a�b�c)|"},
		"bytes that are not UTF-8":  {"a\xff\x1b[31mb", "(a�)a-31(b)|"},
		"a sequence that is too long": {"\x1b[" + strings.Repeat("1;", 80) + "mx",
			"(^[[" + strings.Repeat("1;", 80) + "mx)|"},
		"a title that is too long": {"\x1b]" + strings.Repeat("t", 5000) + "\x07",
			"(^[]" + strings.Repeat("t", 5000) + "^G)|"},
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for i, line := range Parse(c.text) {
				if line.N != i+1 {
					t.Errorf("line %d has the number %d", i+1, line.N)
				}
				for _, s := range line.Spans {
					fmt.Fprintf(&got, "%s(%s)", s.Class, s.Text)
				}
				got.WriteString("|")
			}
			if got.String() != c.want {
				t.Errorf("got %q, want %q", &got, c.want)
			}
		})
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc\n": "a\tb\nc\n", "\x1b[1mexit\x1b[0m\r\n3": "exit\n3", "a\x1b[3": "a^[[3",
		"\u009b2J": "\ufffd2J", "a\a\r\u202eb": "a^G\n\ufffdb", "\x1b[1ma\x1b[0m\n": "a\n", "": "",
		"\n": "\n", "a\n\x1b[0m": "a\n",
	} {
		if got := Plain(text); got != want {
			t.Errorf("Plain(%q): got %q, want %q", text, got, want)
		}
	}
}

// No text makes the parser return a control character or an unknown class, or lose a line.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a\x1b[31mb\x1b[0m\n", "\x1b]8;;x\x07", "\x1b[38;5;", "\r\r\n",
		"\x1b[48:2:1:2:3m\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := Parse(text)
		for _, line := range lines {
			for _, s := range line.Spans {
				for _, r := range s.Text {
					if r != '\t' && runes.IsControl(r) {
						t.Fatalf("control character %U in %q", r, s.Text)
					}
				}
				if strings.Trim(s.Class, "a-0123456789 ") != "" || !utf8.ValidString(s.Text) {
					t.Fatalf("span %+v", s)
				}
			}
		}
		if again := Parse(text); !reflect.DeepEqual(again, lines) {
			t.Fatalf("got %+v, then %+v", lines, again)
		}
	})
}
