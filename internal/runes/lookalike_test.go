package runes

import (
	"strings"
	"testing"
)

func TestIsInvisible(t *testing.T) {
	for _, r := range "\u00ad\u034f\u115f\u180e\u200b\u200c\u200d\u2060\u2800\u3164\ufe0f\ufeff" +
		"\uffa0\U000e0101\u00a0\u2003\u3000\t" {
		if !IsInvisible(r) {
			t.Errorf("%U is visible", r)
		}
	}
	for _, r := range " a.@_\u00e9\u05d0\u0627\u4e16\U0001f600\ufffd" {
		if IsInvisible(r) {
			t.Errorf("%U is invisible", r)
		}
	}
}

func TestFold(t *testing.T) {
	texts := []string{"olga@example.com", "Olga@EXAMPLE.com", "\u212a", "k", "K", "\u017f",
		"S", "s", "\u00c4", "\u00e4", "a", ""}
	for _, a := range texts {
		for _, b := range texts {
			if got, want := Fold(a) == Fold(b), strings.EqualFold(a, b); got != want {
				t.Errorf("%q and %q: equal %v, want %v", a, b, got, want)
			}
		}
	}
}
