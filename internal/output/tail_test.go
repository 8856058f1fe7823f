package output

import (
	"strings"
	"testing"
)

func TestTailKeepsTheEndAsPlainText(t *testing.T) {
	tail := NewTail(10)
	for range 100 {
		if n, err := tail.Write([]byte("abcdefghijk\n")); n != 12 || err != nil {
			t.Fatalf("wrote %d bytes (%v), want 12", n, err)
		}
	}
	if got := tail.Text(10); got != "[earlier output was cut]\ncdefghijk\n" {
		t.Errorf("got %q, want the last lines after a mark", got)
	}
	euro := NewTail(4)
	euro.Write([]byte("x€€")) // a limit in the middle of a character
	if got := euro.Text(4); got != "[earlier output was cut]\n€" {
		t.Errorf("got %q, want one whole character after a mark", got)
	}
	raw := NewTail(100)
	raw.Write([]byte("a\x00b\xffc"))
	if got := raw.Text(100); got != "a\uFFFDb\uFFFDc" {
		t.Errorf("got %q, want invalid bytes replaced", got)
	}
	if got := raw.Text(3); !strings.HasSuffix(got, "b\uFFFDc") {
		t.Errorf("got %q, want the end of the text", got)
	}
}
