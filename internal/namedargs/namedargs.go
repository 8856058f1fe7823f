// Package namedargs finds arguments with names, such as @scheduled_at, in SQL statements. It reads
// quotes, comments and dollar quotes as PostgreSQL does, so that it changes nothing inside them. It
// also finds the first word of a statement.
package namedargs

import "strings"

// Part is a part of a statement: text, or the use of an argument.
type Part struct {
	Text string // as it is written
	Name string // of the argument; "" for text
	// AfterOperator says that < or @ is directly before the @, as in a<@b. PostgreSQL reads both
	// characters as one operator, so the part is text.
	AfterOperator bool
}

// Argument reports whether the part is the use of an argument.
func (p Part) Argument() bool { return p.Name != "" && !p.AfterOperator }

// Split splits a statement into its parts. Their texts together are the statement.
func Split(sql string) []Part {
	var parts []Part
	text := 0 // where the text before the next argument begins
	for i := 0; i < len(sql); {
		if sql[i] != '@' {
			i += TokenLen(sql[i:])
			continue
		}
		name := word(sql[i+1:])
		if name == "" || isDigit(name[0]) {
			i++
			continue
		}
		if i > text {
			parts = append(parts, Part{Text: sql[text:i]})
		}
		end := i + 1 + len(name)
		parts = append(parts, Part{Text: sql[i:end], Name: name,
			AfterOperator: i > 0 && (sql[i-1] == '<' || sql[i-1] == '@')})
		i, text = end, end
	}
	if text < len(sql) {
		parts = append(parts, Part{Text: sql[text:]})
	}
	return parts
}

// Number replaces each argument by what placeholder returns for its number and name. Numbers begin
// after the given one. It returns the statement, and the names in the order of their numbers.
func Number(sql string, after int,
	placeholder func(n int, name string) string) (numbered string, names []string) {
	numbers := map[string]int{}
	var out strings.Builder
	for _, p := range Split(sql) {
		if !p.Argument() {
			out.WriteString(p.Text)
			continue
		}
		if numbers[p.Name] == 0 {
			names = append(names, p.Name)
			numbers[p.Name] = after + len(names)
		}
		out.WriteString(placeholder(numbers[p.Name], p.Name))
	}
	return out.String(), names
}

// TokenLen returns the length of the quoted text, comment or word at the start of sql, and 1 for
// anything else. What has no end reaches to the end of sql.
func TokenLen(sql string) int {
	switch c := sql[0]; {
	case c == '\'' || c == '"':
		return quotedLen(sql, false)
	case strings.HasPrefix(sql, "--"):
		if end := strings.IndexAny(sql, "\n\r"); end >= 0 {
			return end
		}
		return len(sql)
	case strings.HasPrefix(sql, "/*"):
		return CommentLen(sql)
	case c == '$':
		return dollarLen(sql)
	}
	length := len(word(sql))
	if length == 1 && sql[0]|0x20 == 'e' && strings.HasPrefix(sql[1:], "'") {
		return 1 + quotedLen(sql[1:], true)
	}
	return max(length, 1)
}

// quotedLen returns the length of the quoted text at the start of sql. Two quotes inside it read as
// the end of one text and the start of another, which is equivalent here.
func quotedLen(sql string, backslashes bool) int {
	for i := 1; i < len(sql); i++ {
		switch {
		case backslashes && sql[i] == '\\':
			i++
		case sql[i] != sql[0]:
		case backslashes && strings.HasPrefix(sql[i:], "''"):
			i++
		default:
			return i + 1
		}
	}
	return len(sql)
}

// CommentLen returns the length of the block comment at the start of sql. Comments nest.
func CommentLen(sql string) int {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(sql)
}

// dollarLen returns the length of the dollar quote at the start of sql, or 1 if that is none.
func dollarLen(sql string) int {
	tag, _, found := strings.Cut(sql[1:], "$") // word would read on after the $
	if !found || word(tag) != tag || tag != "" && isDigit(tag[0]) {
		return 1
	}
	quote := sql[:len(tag)+2]
	end := strings.Index(sql[len(quote):], quote)
	if end < 0 {
		return len(sql)
	}
	return end + 2*len(quote)
}

// word returns the letters, digits, _ and $ at the start of sql. It is the name of an argument if
// it does not start with a digit.
func word(sql string) string {
	for i, c := range []byte(sql) {
		if !(c == '_' || c == '$' || isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= 0x80) {
			return sql[:i]
		}
	}
	return sql
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
