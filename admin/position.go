package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// position is the version of each topic. It is computed from the store's marks alone, so that any
// replica can continue a stream of another.
type position map[storage.Topic]string

// positionVersion is the first part of a position's text. A text with another version is ignored.
const positionVersion = "1"

// markBytes is the number of bytes of a mark's hash in a position.
const markBytes = 4

func positionOf(marks storage.Marks) position {
	p := make(position, len(marks))
	for topic, mark := range marks {
		sum := sha256.Sum256([]byte(mark))
		p[topic] = hex.EncodeToString(sum[:markBytes])
	}
	return p
}

// parsePosition parses the result of String. It returns nil for any other text, which means that no
// topic has been seen.
func parsePosition(text string) position {
	parts := strings.Split(text, "-")
	if len(parts) != 1+len(storage.Topics()) || parts[0] != positionVersion {
		return nil
	}
	p := make(position, len(storage.Topics()))
	for i, topic := range storage.Topics() {
		if sum, err := hex.DecodeString(parts[i+1]); err != nil || len(sum) != markBytes {
			return nil
		}
		p[topic] = parts[i+1]
	}
	return p
}

// String returns the position as an event's id, or "" if none is known.
func (p position) String() string {
	if len(p) == 0 {
		return ""
	}
	parts := []string{positionVersion}
	for _, topic := range storage.Topics() {
		parts = append(parts, p[topic])
	}
	return strings.Join(parts, "-")
}
