package runes

import "testing"

func TestIsControl(t *testing.T) {
	for _, r := range "\x00\n\x1b\x7f\u0085\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e" +
		"\u2066\u2067\u2068\u2069" {
		if !IsControl(r) {
			t.Errorf("%U is no control character", r)
		}
	}
	for _, r := range " a\u00e9\u05d0\u0627\u200d\u4e16\U0001f600\ufffd" {
		if IsControl(r) {
			t.Errorf("%U is a control character", r)
		}
	}
}
