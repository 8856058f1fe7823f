package remote

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxToken is the largest token, in bytes.
const maxToken = 4096

// ReadToken reads a token from a file of one line. The error does not quote the file.
func ReadToken(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxToken+3))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token, err := ParseToken(string(text))
	if err != nil {
		return "", fmt.Errorf("read token from %s: %w", path, err)
	}
	return token, nil
}

// ParseToken checks a token and removes the end of its line. The error does not quote the text.
func ParseToken(text string) (string, error) {
	token := strings.TrimRight(text, "\r\n")
	visible := func(r rune) bool { return r > ' ' && r <= '~' }
	switch {
	case token == "":
		return "", errors.New("it is empty")
	case len(token) > maxToken:
		return "", fmt.Errorf("it has more than %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return !visible(r) }):
		return "", errors.New("expected one line of visible ASCII characters without spaces")
	}
	return token, nil
}
