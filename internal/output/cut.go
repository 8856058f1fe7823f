package output

// Cut returns at most n bytes of s; PlainText repairs a character that was cut in two.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}
