package namedargs

import "strings"

// FirstWord returns the first word of a statement in lower case. It skips white space, comments
// (which nest) and empty commands.
func FirstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			end := strings.IndexAny(sql, "\n\r") // as PostgreSQL has it
			if end < 0 {
				return ""
			}
			sql = sql[end:]
		case strings.HasPrefix(sql, "/*"):
			sql = sql[CommentLen(sql):]
		default:
			end := strings.IndexFunc(sql, func(r rune) bool {
				return !('a' <= r|0x20 && r|0x20 <= 'z' || r == '_')
			})
			if end < 0 {
				end = len(sql)
			}
			return strings.ToLower(sql[:end])
		}
	}
}
