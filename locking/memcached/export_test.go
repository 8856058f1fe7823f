package memcached

import (
	"io"
	"time"
)

// Parse returns the health of a server that reports only these values.
func Parse(from io.Reader) (Health, error) {
	r, err := converse(struct {
		io.Reader
		io.Writer
	}{from, io.Discard})
	if err != nil {
		return Health{}, err
	}
	w := newWatched("fuzz:1", needs{})
	w.take(time.Unix(0, 0), r)
	return w.health, nil
}
