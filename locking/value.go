package locking

import "fmt"

// MaxMemoBytes is the size of the largest value that a Memo stores.
const MaxMemoBytes = 1_000_000

// MaxValueBytes is the size of the largest value: a Memo's, with its header.
// memcached's own limit (-I) is 1 MiB by default, which includes the key and the
// item's header.
const MaxValueBytes = MaxMemoBytes + 4096

// CheckValue returns an error that wraps ErrTooLarge if value has more than
// MaxValueBytes. Backends call it before they send anything, so that no backend
// accepts a larger value. A server may have a smaller limit.
func CheckValue(value []byte) error {
	if len(value) > MaxValueBytes {
		return fmt.Errorf("%w: found %d bytes, expected at most %d", ErrTooLarge, len(value),
			MaxValueBytes)
	}
	return nil
}
