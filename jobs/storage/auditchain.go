package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// AuditChain is the hash chain of the audit log. Each link is the hash of one entry and the
// previous link. An action adds an entry without a link. SealAudit adds the link later, so that
// actions do not wait for each other.
type AuditChain interface {
	// SealAudit adds links for at most limit entries without one, the oldest first, and returns
	// their number. It may add none while another replica seals or prunes.
	SealAudit(ctx context.Context, limit int) (int, error)
	// UnsealedAge returns how long the oldest entry without a link has waited; 0 if there is none.
	UnsealedAge(ctx context.Context) (time.Duration, error)
	// AuditChain returns the state of the chain, or ErrNotFound if the store has no head. It reads
	// the whole index of the log.
	AuditChain(ctx context.Context) (ChainState, error)
	// AuditLinks returns at most limit links with a greater Seq than after, in order.
	AuditLinks(ctx context.Context, after int64, limit int) ([]AuditLink, error)
}

// AuditHash is the SHA-256 of a link.
type AuditHash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h AuditHash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the hash in hexadecimal.
func (h AuditHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ChainHead is a position in the chain. The zero ChainHead precedes the first link.
type ChainHead struct {
	Seq  int64     `json:"seq"` // from 1
	Hash AuditHash `json:"hash"`
}

// String returns "SEQ:HASH", with the hash in hexadecimal.
func (h ChainHead) String() string { return fmt.Sprintf("%d:%s", h.Seq, h.Hash) }

// KnownHead is a head of the chain at an earlier check.
type KnownHead struct {
	ChainHead
	At time.Time // of its entry; zero: unknown
}

// String returns the text that ParseKnownHead reads.
func (h KnownHead) String() string {
	if h.At.IsZero() {
		return h.ChainHead.String()
	}
	return h.ChainHead.String() + ":" + h.At.UTC().Format(time.RFC3339Nano)
}

// ParseKnownHead parses "SEQ:HASH:TIME" or "SEQ:HASH", with the hash in hexadecimal and the time in
// RFC 3339.
func ParseKnownHead(text string) (KnownHead, error) {
	seq, rest, _ := strings.Cut(text, ":")
	hash, at, timed := strings.Cut(rest, ":")
	var h KnownHead
	n, err := strconv.ParseInt(seq, 10, 64)
	raw, wrong := hex.DecodeString(hash)
	if err != nil || wrong != nil || n < 1 || len(raw) != len(h.Hash) {
		return h, fmt.Errorf("expected SEQ:HASH:TIME with %d hexadecimal digits, found %q",
			2*len(h.Hash), text)
	}
	if timed {
		if h.At, err = time.Parse(time.RFC3339, at); err != nil {
			return h, fmt.Errorf("expected SEQ:HASH:TIME with a time such as "+
				"2026-11-01T00:00:00Z, found %q", text)
		}
	}
	h.Seq = n
	copy(h.Hash[:], raw)
	return h, nil
}

// ChainState is the state of the chain at one time.
type ChainState struct {
	Now    time.Time  // of the store's clock
	Anchor ChainHead  // the last link that pruning deleted; zero: none
	Head   ChainHead  // the last link
	HeadAt *time.Time // of the entry of Head; nil: the link is not in the store
	// Unsealed is the number of entries without a link. OldestUnsealed is the time of the oldest.
	Unsealed       int
	OldestUnsealed *time.Time
	// Missing is an entry that waits for its link but is not in the log. Stray is an entry in the
	// log that has no link and does not wait for one. nil: there is none.
	Missing, Stray *uuid.UUID
}

// AuditLink is one link, with its entry.
type AuditLink struct {
	ChainHead
	ID    uuid.UUID // of the entry
	At    time.Time // of the entry
	Entry *Audited  // nil: the entry is missing
}

// SealAll returns the links of entries after head, in order.
func SealAll(head ChainHead, entries []Audited) []AuditLink {
	links := make([]AuditLink, len(entries))
	for i, l := range entries {
		head = ChainHead{head.Seq + 1, l.Link(head.Hash)}
		links[i] = AuditLink{ChainHead: head, ID: l.ID, At: l.At, Entry: &l}
	}
	return links
}
