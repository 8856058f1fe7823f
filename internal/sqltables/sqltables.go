// Package sqltables finds the tables that SQL text names.
//
// It reads the text and knows no schema. So it does not see the tables behind views, functions,
// triggers and foreign keys, nor those in statements that are built at run time.
package sqltables

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/namedargs"
)

// Mention is a table in a statement.
type Mention struct {
	Name  string // as written, such as sales or "Sales".orders
	Write bool   // the statement changes the table
}

// Find returns the tables that a text of one or several statements names, in their order, each at
// most once for reads and once for writes. It leaves out names of common table expressions and
// temporary tables, functions, and tables of the system.
func Find(sql string) []Mention {
	f := &finder{tokens: tokensOf(sql)}
	f.findOwn()
	for f.at = 0; f.at < len(f.tokens); f.at++ {
		f.keyword()
	}
	return f.found
}

// tokensOf returns the words, quoted names and single characters of a text, without comments.
func tokensOf(sql string) (tokens []string) {
	for sql != "" {
		n := namedargs.TokenLen(sql)
		token := sql[:n]
		sql = sql[n:]
		comment := strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*")
		if !comment && strings.TrimSpace(token) != "" {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// finder walks over the tokens of a text.
type finder struct {
	tokens []string
	at     int
	own    []string // names that the text itself defines, in lower case
	found  []Mention
}

// token returns a token by its distance from the current one, "" beyond the text.
func (f *finder) token(distance int) string {
	if i := f.at + distance; i >= 0 && i < len(f.tokens) {
		return f.tokens[i]
	}
	return ""
}

// is reports whether a token is one of some keywords.
func (f *finder) is(distance int, keywords string) bool {
	token := f.token(distance)
	return token != "" && slices.Contains(strings.Fields(keywords), strings.ToUpper(token))
}

// findOwn finds common table expressions and temporary tables.
func (f *finder) findOwn() {
	for f.at = range f.tokens {
		switch {
		case f.is(0, "AS") && (f.token(1) == "(" || f.is(1, "MATERIALIZED") || f.is(1, "NOT")):
			f.own = append(f.own, strings.ToLower(f.nameBefore()))
		case f.is(0, "TEMP TEMPORARY") && f.is(1, "TABLE"):
			i := 2
			for f.is(i, "IF NOT EXISTS") {
				i++
			}
			f.own = append(f.own, strings.ToLower(f.token(i)))
		}
	}
}

// nameBefore returns the name before the current token, with or without a list of columns between.
func (f *finder) nameBefore() string {
	i := -1
	if f.token(i) == ")" {
		for i--; f.token(i) != "" && f.token(i) != "("; i-- {
		}
		i--
	}
	return f.token(i)
}

// keyword finds the tables after the current token if it is a keyword that names some.
func (f *finder) keyword() {
	begins := f.token(-1) == "" || strings.ContainsAny(f.token(-1), ";()")
	switch {
	case f.is(0, "INTO") && f.is(-1, "INSERT MERGE"):
		f.table(1, true)
	case f.is(0, "UPDATE") && begins:
		f.table(1, true)
	case f.is(0, "FROM") && f.is(-1, "DELETE"):
		f.table(1, true)
	case f.is(0, "TRUNCATE") && begins:
		f.list(1, true)
	case f.is(0, "COPY") && begins && f.token(1) != "(":
		after := f.table(1, false)
		if f.token(after) == "(" {
			for f.token(after) != "" && f.token(after) != ")" {
				after++
			}
			after++
		}
		if f.is(after, "FROM") {
			f.table(1, true)
		}
	case f.is(0, "TABLE") && f.is(-1, "ALTER DROP CREATE UNLOGGED"):
		f.list(1, true)
	case f.is(0, "VIEW") && f.is(-1, "MATERIALIZED") && f.is(-2, "REFRESH"):
		f.table(1, true)
	case f.is(0, "FROM") && !f.is(-1, "DISTINCT") && !f.inFunction() && !f.copied():
		f.list(1, false)
	case f.is(0, "JOIN"), f.is(0, "USING") && f.token(1) != "(":
		f.list(1, false)
	}
}

// inFunction reports whether FROM belongs to a call such as extract(day FROM x).
func (f *finder) inFunction() bool {
	depth := 0
	for i := -1; f.token(i) != ""; i-- {
		switch f.token(i) {
		case ")":
			depth++
		case "(":
			if depth == 0 {
				return f.is(i-1, "EXTRACT SUBSTRING TRIM OVERLAY POSITION NORMALIZE")
			}
			depth--
		case ";":
			return false
		}
	}
	return false
}

// copied reports whether FROM belongs to COPY, which names a file or a stream after it.
func (f *finder) copied() bool {
	return f.is(1, "STDIN PROGRAM") || strings.HasPrefix(f.token(1), "'")
}

// list adds the tables of a list that begins at a distance.
func (f *finder) list(distance int, write bool) {
	for {
		after := f.table(distance, write)
		if f.is(after, "AS") {
			after++
		}
		if isName(f.token(after)) && !f.is(after, reserved) {
			after++ // an alias
		}
		if f.token(after) != "," {
			return
		}
		distance = after + 1
	}
}

// reserved are words that may follow a table and are no alias.
const reserved = "WHERE SET VALUES SELECT JOIN LEFT RIGHT INNER OUTER FULL CROSS NATURAL ON " +
	"USING GROUP ORDER HAVING LIMIT OFFSET FETCH FOR UNION INTERSECT EXCEPT RETURNING WINDOW " +
	"WHEN TABLESAMPLE DEFAULT OVERRIDING TO FROM WITH CASCADE RESTRICT RESTART CONTINUE ADD " +
	"DROP ALTER RENAME OWNER AS"

// table adds the table at a distance, if there is one, and returns the distance of what follows.
func (f *finder) table(distance int, write bool) int {
	for f.is(distance, "ONLY TABLE IF NOT EXISTS CONCURRENTLY LATERAL") {
		distance++
	}
	first := f.token(distance)
	if !isName(first) || f.is(distance, reserved) {
		return distance
	}
	name := first
	for distance++; f.token(distance) == "." && isName(f.token(distance+1)); distance += 2 {
		name += "." + f.token(distance+1)
	}
	if f.token(distance) == "*" {
		distance++
	}
	lower := strings.ToLower(name)
	function := !write && f.token(distance) == "("
	system := strings.HasPrefix(lower, "pg_") ||
		strings.HasPrefix(lower, "information_schema.")
	mention := Mention{name, write}
	if !function && !system && !slices.Contains(f.own, lower) &&
		!slices.Contains(f.found, mention) {
		f.found = append(f.found, mention)
	}
	return distance
}

// isName reports whether a token is a word or a quoted name.
func isName(token string) bool {
	if token == "" {
		return false
	}
	c := token[0]
	return c == '"' || c == '_' || c >= 0x80 || 'a' <= c|0x20 && c|0x20 <= 'z'
}
