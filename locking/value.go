package locking

import "fmt"

// MaxMemoBytes is the size of the largest value that a Memo stores.
const MaxMemoBytes = 1_000_000

// MaxValueBytes is the size of the largest value: that of a Memo, with its header. It fits the
// default limit of memcached (-I), 1 MiB.
const MaxValueBytes = MaxMemoBytes + 4096

// CheckValue returns an error that wraps ErrTooLarge if value has more than MaxValueBytes. Backends
// call it before they send anything.
func CheckValue(value []byte) error {
	if len(value) > MaxValueBytes {
		return fmt.Errorf("%w: found %d bytes, expected at most %d", ErrTooLarge, len(value),
			MaxValueBytes)
	}
	return nil
}
