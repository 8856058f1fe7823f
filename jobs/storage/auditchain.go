package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// AuditChain links the entries of the audit log by hashes. An entry is written without a link, in
// the transaction of its action. SealAudit adds the link after that transaction, so that no action
// waits for another one.
type AuditChain interface {
	// SealAudit adds links for at most limit entries that have none, the oldest first, and returns
	// how many. If another replica seals or prunes at the same time, it may add none.
	SealAudit(ctx context.Context, limit int) (int, error)
	// AuditChain returns the state of the chain. It reads the whole index of the log. ErrNotFound
	// says that the store has no head.
	AuditChain(ctx context.Context) (ChainState, error)
	// AuditLinks returns links with a greater Seq than after, in order, at most limit.
	AuditLinks(ctx context.Context, after int64, limit int) ([]AuditLink, error)
}

// AuditHash is the SHA-256 of a link.
type AuditHash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h AuditHash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the hash in hexadecimal.
func (h AuditHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// ChainHead is one position in the chain. The zero ChainHead precedes the first link.
type ChainHead struct {
	Seq  int64     `json:"seq"` // counts links from 1
	Hash AuditHash `json:"hash"`
}

// String returns the notation that ParseChainHead reads.
func (h ChainHead) String() string { return fmt.Sprintf("%d:%s", h.Seq, h.Hash) }

// ParseChainHead parses "SEQ:HASH", with the hash in hexadecimal.
func ParseChainHead(text string) (ChainHead, error) {
	seq, hash, _ := strings.Cut(text, ":")
	var h ChainHead
	n, err := strconv.ParseInt(seq, 10, 64)
	raw, wrong := hex.DecodeString(hash)
	if err != nil || wrong != nil || n < 1 || len(raw) != len(h.Hash) {
		return h, fmt.Errorf("expected SEQ:HASH with %d hexadecimal digits, found %q",
			2*len(h.Hash), text)
	}
	h.Seq = n
	copy(h.Hash[:], raw)
	return h, nil
}

// ChainState is the state of the chain at one time.
type ChainState struct {
	Anchor ChainHead // the last link that pruning deleted; zero: none
	Head   ChainHead // the last link
	// Unsealed is the number of entries without a link, OldestUnsealed the time of the oldest.
	Unsealed       int
	OldestUnsealed *time.Time
	// Missing waits for its link, but is not in the log. Stray is in the log, but has no link and
	// waits for none. nil: there is none.
	Missing, Stray *uuid.UUID
}

// AuditLink is one link, with its entry.
type AuditLink struct {
	ChainHead
	ID    uuid.UUID // of the entry
	At    time.Time // of the entry
	Entry *Audited  // nil: the entry is missing
}

// Link returns the hash of the link of l after the link with the hash previous. It covers all
// fields of l, times in microseconds.
//
// The hash is the SHA-256 of previous, and of each field in the order of Audited: its length in
// bytes as 8 bytes in big-endian order, and its text. The time is in microseconds since 1970, in
// decimal. Detail is JSON without spaces and with sorted keys.
func (l Audited) Link(previous AuditHash) (AuditHash, error) {
	detail, err := sortedJSON(l.Detail)
	if err != nil {
		return AuditHash{}, fmt.Errorf("detail of audit log entry %s: %w", l.ID, err)
	}
	text := previous[:]
	for _, field := range []string{l.ID.String(), strconv.FormatInt(l.At.UnixMicro(), 10), l.Actor,
		l.Via, l.Proof, l.Client, l.RequestID, l.Replica, l.Action, l.Target, l.Reason, detail} {
		text = binary.BigEndian.AppendUint64(text, uint64(len(field)))
		text = append(text, field...)
	}
	return sha256.Sum256(text), nil
}

// sortedJSON returns JSON without spaces and with sorted keys. Numbers keep their digits.
func sortedJSON(text json.RawMessage) (string, error) {
	if len(text) == 0 {
		return "", nil
	}
	value, err := canonical(text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// SealAll returns the links of entries after head, in order.
func SealAll(head ChainHead, entries []Audited) ([]AuditLink, error) {
	links := make([]AuditLink, len(entries))
	for i, l := range entries {
		hash, err := l.Link(head.Hash)
		if err != nil {
			return nil, err
		}
		head = ChainHead{head.Seq + 1, hash}
		links[i] = AuditLink{ChainHead: head, ID: l.ID, At: l.At, Entry: &l}
	}
	return links, nil
}

// ChainCheck is the result of VerifyAudit.
type ChainCheck struct {
	ChainState
	Checked int // links
	// Problem says what does not match first; "" if everything matches. Seq is the position of
	// the link, and ID its entry.
	Problem string
	Seq     int64
	ID      *uuid.UUID
}

// VerifyAudit checks all links that the chain had at the call. Known are heads that it had
// earlier. An error says that the chain could not be read, or that pruning deleted a known head.
func VerifyAudit(ctx context.Context, chain AuditChain,
	known ...ChainHead) (v ChainCheck, err error) {
	v.ChainState, err = chain.AuditChain(ctx)
	if errors.Is(err, ErrNotFound) {
		v.Problem = "the head of the chain is missing"
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if err := v.knows(known); err != nil {
		return v, err
	}
	at := v.Anchor
	for v.agree(at, known) && at.Seq < v.Head.Seq {
		page, err := chain.AuditLinks(ctx, at.Seq, MaxBatch)
		if err != nil {
			return v, err
		}
		if len(page) == 0 || page[0].Seq != at.Seq+1 {
			// pruning may have deleted links since the last page
			now, err := chain.AuditChain(ctx)
			if err != nil {
				return v, err
			}
			if now.Anchor.Seq > at.Seq {
				at, v.Anchor = now.Anchor, now.Anchor
				if err := v.knows(known); err != nil {
					return v, err
				}
				continue
			}
			v.found(at.Seq+1, nil, "the link is missing")
			return v, nil
		}
		for _, link := range page {
			if link.Seq > v.Head.Seq {
				break
			}
			if !v.check(at, link) || !v.agree(link.ChainHead, known) {
				return v, nil
			}
			at = link.ChainHead
		}
	}
	if v.Problem == "" {
		v.checkRest(at, known)
	}
	return v, nil
}

// knows returns an error if pruning deleted the link of a known head.
func (v *ChainCheck) knows(known []ChainHead) error {
	for _, k := range known {
		if k.Seq < v.Anchor.Seq {
			return fmt.Errorf("head %d was deleted after history.keep, which leaves links after %d",
				k.Seq, v.Anchor.Seq)
		}
	}
	return nil
}

// found notes the first problem.
func (v *ChainCheck) found(seq int64, id *uuid.UUID, problem string) bool {
	v.Seq, v.ID, v.Problem = seq, id, problem
	return false
}

// check reports whether a link follows the link at.
func (v *ChainCheck) check(at ChainHead, link AuditLink) bool {
	switch {
	case link.Seq != at.Seq+1:
		return v.found(at.Seq+1, nil, "the link is missing")
	case link.Entry == nil:
		return v.found(link.Seq, &link.ID, "the entry is missing")
	}
	hash, err := link.Entry.Link(at.Hash)
	if err != nil || hash != link.Hash || !link.Entry.At.Equal(link.At) ||
		link.Entry.ID != link.ID {
		return v.found(link.Seq, &link.ID, "the entry or its link was changed")
	}
	v.Checked++
	return true
}

// agree reports whether at is none of the known heads with another hash.
func (v *ChainCheck) agree(at ChainHead, known []ChainHead) bool {
	for _, k := range known {
		if k.Seq == at.Seq && k.Hash != at.Hash {
			return v.found(at.Seq, nil, "the chain had another hash here before")
		}
	}
	return true
}

// checkRest checks what is not in a link. The last link is at.
func (v *ChainCheck) checkRest(at ChainHead, known []ChainHead) {
	for _, k := range known {
		if k.Seq > v.Head.Seq {
			v.found(v.Head.Seq+1, nil, fmt.Sprintf("the chain had %d links before", k.Seq))
			return
		}
	}
	switch {
	case at.Seq == v.Head.Seq && at.Hash != v.Head.Hash:
		v.found(at.Seq, nil, "the last link is not the head of the chain")
	case v.Missing != nil:
		v.found(v.Head.Seq+1, v.Missing, "the entry is missing, and was not sealed")
	case v.Stray != nil:
		v.found(0, v.Stray, "the entry has no link, and does not wait for one")
	}
}
