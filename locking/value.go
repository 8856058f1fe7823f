package locking

import "fmt"

// MaxMemoBytes is the size of the largest value that a Memo stores.
const MaxMemoBytes = 1_000_000

// MaxValueBytes is the size of the largest value: a Memo's, with what stands
// before it. memcached's own limit (-I) is 1 MiB by default, in which the key
// and the item's header count too.
const MaxValueBytes = MaxMemoBytes + 4096

// CheckValue returns an error that wraps ErrTooLarge if value has more than
// MaxValueBytes. Backends call it before they send anything, so that what one
// takes all take, however their servers are set.
func CheckValue(value []byte) error {
	if len(value) > MaxValueBytes {
		return fmt.Errorf("%w: found %d bytes, expected at most %d", ErrTooLarge, len(value),
			MaxValueBytes)
	}
	return nil
}
