package ansi

import (
	"fmt"
	"strconv"
	"strings"
)

// style is how text looks. Colours are the codes that set them, or 0 for the default: 31 to 37 and
// 90 for text, 41 to 47 for the ground. Bright colours are the same as the others.
type style struct {
	bold, faint, italic, underline, inverse, struck bool
	colour, ground                                  int
}

// apply returns the style after the parameters of a sequence, separated by ; or :. Parameters that
// are unknown change nothing.
func (s style) apply(parameters string) style {
	if parameters == "" {
		return s
	}
	codes := codes(parameters)
	for i := 0; i < len(codes); i++ {
		switch code := codes[i]; {
		case code == 38 || code == 48:
			var colour int
			colour, i = extended(codes, i)
			if code == 38 {
				s.colour = colour
			} else {
				s.ground = ground(colour)
			}
		default:
			s.set(code)
		}
	}
	return s
}

func codes(parameters string) []int {
	var codes []int
	for _, text := range strings.FieldsFunc(parameters, func(r rune) bool {
		return r == ';' || r == ':'
	}) {
		code, err := strconv.Atoi(text)
		if err != nil {
			code = -1
		}
		codes = append(codes, code)
	}
	if len(codes) == 0 {
		return []int{0}
	}
	return codes
}

func (s *style) set(code int) {
	switch {
	case code == 0:
		*s = style{}
	case code == 1:
		s.bold = true
	case code == 2:
		s.faint = true
	case code == 3:
		s.italic = true
	case code == 4:
		s.underline = true
	case code == 7:
		s.inverse = true
	case code == 9:
		s.struck = true
	case code == 22:
		s.bold, s.faint = false, false
	case code == 23:
		s.italic = false
	case code == 24:
		s.underline = false
	case code == 27:
		s.inverse = false
	case code == 29:
		s.struck = false
	case code == 39:
		s.colour = 0
	case code == 49:
		s.ground = 0
	case 30 <= code && code <= 37:
		s.colour = basic(code - 30)
	case 90 <= code && code <= 97:
		s.colour = basic(code - 90 + 8)
	case 40 <= code && code <= 47:
		s.ground = ground(basic(code - 40))
	case 100 <= code && code <= 107:
		s.ground = ground(basic(code - 100 + 8))
	}
}

// basic returns the colour of an index of the first 16. Black is the default, because it is the
// colour of text in a terminal with a light ground.
func basic(index int) int {
	switch {
	case index == 0:
		return 0
	case index == 8:
		return 90
	}
	return 30 + index%8
}

// ground returns the ground of a colour of text. Grounds without a hue are the default.
func ground(colour int) int {
	if colour == 0 || colour == 37 || colour == 90 {
		return 0
	}
	return colour + 10
}

// extended returns the colour that follows a code 38 or 48 at i, and the index of its last
// parameter. A colour beyond the first 16 is the default.
func extended(codes []int, i int) (colour, last int) {
	if i+1 >= len(codes) {
		return 0, i
	}
	switch codes[i+1] {
	case 5:
		if i+2 < len(codes) && 0 <= codes[i+2] && codes[i+2] < 16 {
			colour = basic(codes[i+2])
		}
		return colour, min(i+2, len(codes)-1)
	case 2:
		return 0, min(i+4, len(codes)-1)
	}
	return 0, i + 1
}

// class returns the CSS classes of the style. Text on a ground, and inverse text, has the colour
// that can be read there.
func (s style) class() string {
	var names []string
	add := func(on bool, code int) {
		if on {
			names = append(names, fmt.Sprintf("a-%d", code))
		}
	}
	add(s.bold, 1)
	add(s.faint && s.ground == 0 && !s.inverse, 2)
	add(s.italic, 3)
	add(s.underline, 4)
	add(s.inverse, 7)
	add(s.struck, 9)
	add(s.colour != 0 && s.ground == 0 && !s.inverse, s.colour)
	add(s.ground != 0 && !s.inverse, s.ground)
	return strings.Join(names, " ")
}
