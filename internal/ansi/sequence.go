package ansi

import "strings"

const (
	escape = 0x1b
	bell   = 0x07
)

// The longest sequences that are removed, in bytes. Longer ones are shown.
const (
	maxControl = 128  // of a control sequence, as for colours
	maxString  = 4096 // of a string, as for titles and links
)

// measure returns the length of the escape sequence at the beginning of s, or 0 if it is
// incomplete or too long. If the sequence sets colours, it also returns its parameters.
func measure(s string) (length int, colours string) {
	if len(s) < 2 {
		return 0, ""
	}
	switch c := s[1]; {
	case c == '[':
		return control(s)
	case strings.IndexByte("]P^_X", c) >= 0:
		return text(s), ""
	case 0x20 <= c && c <= 0x2f: // as for character sets
		end := 2
		for end < min(len(s), maxControl) && 0x20 <= s[end] && s[end] <= 0x2f {
			end++
		}
		if end < len(s) && 0x30 <= s[end] && s[end] <= 0x7e {
			return end + 1, ""
		}
		return 0, ""
	case 0x30 <= c && c <= 0x7e:
		return 2, ""
	}
	return 0, ""
}

// control measures a control sequence: parameters, intermediate bytes and a final byte.
func control(s string) (length int, colours string) {
	end := 2
	for end < len(s) && 0x30 <= s[end] && s[end] <= 0x3f {
		end++
	}
	parameters := s[2:end]
	for end < len(s) && 0x20 <= s[end] && s[end] <= 0x2f {
		end++
	}
	if end >= len(s) || s[end] < 0x40 || s[end] > 0x7e || end >= maxControl {
		return 0, ""
	}
	if s[end] != 'm' || len(parameters) != end-2 || strings.ContainsAny(parameters, "<=>?") {
		return end + 1, ""
	}
	if parameters == "" {
		parameters = "0"
	}
	return end + 1, parameters
}

// text measures a sequence that contains a string, up to its terminator.
func text(s string) int {
	for i := 2; i < min(len(s), maxString); i++ {
		switch {
		case s[i] == bell:
			return i + 1
		case s[i] == escape && i+1 < len(s) && s[i+1] == '\\':
			return i + 2
		case s[i] < 0x20 || s[i] == 0x7f:
			return 0
		}
	}
	return 0
}
