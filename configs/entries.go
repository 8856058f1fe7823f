package configs

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

const (
	maxListed = 10_000 // items of one list
	maxKeys   = 1000   // of one mapping; for each key, the parser copies the keys behind it
)

// collection is a list or a mapping while its entries are counted.
type collection struct {
	column  int // of its entries; 0 in brackets, where commas count
	entries int
	list    bool
}

// tooLong returns the token that exceeds maxListed or maxKeys, and what there is too much of.
func tooLong(tokens token.Tokens) (at *token.Token, what string) {
	var open []collection // around the token, the innermost last
	for i, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, collection{list: t.Type == token.SequenceStartType})
			continue
		case token.SequenceEndType, token.MappingEndType:
			open = open[:max(len(open)-1, 0)]
			continue
		}
		key := i+1 < len(tokens) && tokens[i+1].Type == token.MappingValueType
		switch inBrackets := len(open) > 0 && open[len(open)-1].column == 0; {
		case inBrackets && t.Type != token.CollectEntryType:
			continue
		case inBrackets:
		case t.Type == token.SequenceEntryType:
			open = innermost(open, collection{column: t.Position.Column, list: true})
		case t.Type == token.MappingKeyType, key:
			open = innermost(open, collection{column: t.Position.Column})
		default:
			continue
		}
		switch c := &open[len(open)-1]; {
		case c.list && c.entries == maxListed:
			return t, fmt.Sprintf("%d items in one list", maxListed)
		case !c.list && c.entries == maxKeys:
			return t, fmt.Sprintf("%d keys in one mapping", maxKeys)
		default:
			c.entries++
		}
	}
	return nil, ""
}

// innermost returns open without the collections that an entry of c ends, and with c as the
// innermost. A list may have the column of the mapping around it.
func innermost(open []collection, c collection) []collection {
	for n := len(open) - 1; n >= 0; n-- {
		last := open[n]
		if last.column == c.column && last.list == c.list {
			return open
		}
		if last.column < c.column || last.column == c.column && !last.list {
			break
		}
		open = open[:n]
	}
	return append(open, c)
}
