package locking

import (
	"errors"
	"fmt"
)

// ErrBadKey is wrapped by a backend's errors about keys that no backend takes.
var ErrBadKey = errors.New("bad key")

// CheckKey returns an error that wraps ErrBadKey unless key has 1 to 250 bytes
// without spaces and control characters. Backends call it first: memcached refuses
// a command with an empty key, and then executes the value as the next command.
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
