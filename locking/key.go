package locking

import (
	"errors"
	"fmt"
)

// ErrBadKey is wrapped by errors about keys that no backend accepts.
var ErrBadKey = errors.New("bad key")

// CheckKey returns an error that wraps ErrBadKey unless key has 1 to 250 bytes without spaces and
// control characters. Backends call it before they send anything.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKeyBytes {
		return fmt.Errorf("%w: found %d bytes, expected 1 to %d", ErrBadKey, len(key), maxKeyBytes)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] == 0x7f {
			return fmt.Errorf("%w: %q has a space or control character at byte %d", ErrBadKey, key,
				i)
		}
	}
	return nil
}
