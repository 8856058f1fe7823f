package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
)

// position says where each topic stood. It comes from the store's marks alone,
// so that what one replica has told, another can go on from.
type position map[jobs.Topic]string

// positionVersion is the first part of a position's text: one of a version that
// has other topics, or reads them otherwise, is none.
const positionVersion = "1"

// markBytes is how much of a mark's hash a position keeps.
const markBytes = 4

func positionOf(marks jobs.Marks) position {
	p := make(position, len(marks))
	for topic, mark := range marks {
		sum := sha256.Sum256([]byte(mark))
		p[topic] = hex.EncodeToString(sum[:markBytes])
	}
	return p
}

// parsePosition reads what String wrote; anything else is the position of who
// has seen nothing yet.
func parsePosition(text string) position {
	parts := strings.Split(text, "-")
	if len(parts) != 1+len(jobs.Topics()) || parts[0] != positionVersion {
		return nil
	}
	p := make(position, len(jobs.Topics()))
	for i, topic := range jobs.Topics() {
		if sum, err := hex.DecodeString(parts[i+1]); err != nil || len(sum) != markBytes {
			return nil
		}
		p[topic] = parts[i+1]
	}
	return p
}

// String writes the position as ids of events have it; "" where none is known.
func (p position) String() string {
	if len(p) == 0 {
		return ""
	}
	parts := []string{positionVersion}
	for _, topic := range jobs.Topics() {
		parts = append(parts, p[topic])
	}
	return strings.Join(parts, "-")
}
