package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/plural"
)

// maxAhead is how far the time of an entry may be ahead of the clock of the store. The clock of
// another database server, which took over, may differ.
const maxAhead = time.Minute

// ChainRules are what VerifyAudit checks in addition to the links.
type ChainRules struct {
	Known []KnownHead // heads at earlier checks
	// Keep is the history.keep of the replicas: pruning deletes only older links. 0: not checked.
	Keep time.Duration
	// MaxUnsealed is the maximum age of an entry without a link. 0: not checked.
	MaxUnsealed time.Duration
}

// ChainCheck is the result of VerifyAudit.
type ChainCheck struct {
	ChainState
	Checked int // number of links
	// Problem is the first problem; "" if there is none. Seq is the position of its link, and ID is
	// its entry.
	Problem string
	Seq     int64
	ID      *uuid.UUID
	// Unattended says that the only Problem is an entry that has no link and is older than
	// MaxUnsealed.
	Unattended bool

	rules ChainRules
	ahead *AuditLink // the first link whose time is ahead of the clock
}

// KnownHead returns the head for later checks.
func (v *ChainCheck) KnownHead() KnownHead {
	k := KnownHead{ChainHead: v.Head}
	if v.HeadAt != nil {
		k.At = *v.HeadAt
	}
	return k
}

// VerifyAudit checks all links of the chain. It returns an error if the chain cannot be read, or if
// pruning deleted a known head.
func VerifyAudit(ctx context.Context, chain AuditChain, rules ChainRules) (v ChainCheck,
	err error) {
	v.rules = rules
	v.ChainState, err = chain.AuditChain(ctx)
	if errors.Is(err, ErrNotFound) {
		v.Problem = "the head of the chain is missing"
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if err := v.knows(); err != nil || v.Problem != "" {
		return v, err
	}
	at := v.Anchor
	for v.agree(at) && at.Seq < v.Head.Seq {
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
				at, v.Anchor, v.Now = now.Anchor, now.Anchor, now.Now
				if err := v.knows(); err != nil || v.Problem != "" {
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
			if !v.check(at, link) || !v.agree(link.ChainHead) {
				return v, nil
			}
			at = link.ChainHead
		}
	}
	if v.Problem == "" {
		v.checkRest(at)
	}
	return v, nil
}

// knows finds a problem if the link of a known head was deleted too early. It returns an error if
// pruning deleted one, because then the head cannot be checked.
func (v *ChainCheck) knows() error {
	for _, k := range v.rules.Known {
		young := !k.At.IsZero() && v.rules.Keep > 0 && k.At.After(v.Now.Add(-v.rules.Keep)) &&
			!k.At.After(v.Now)
		if young && k.Seq <= v.Anchor.Seq {
			v.found(k.Seq, nil, fmt.Sprintf("the link was deleted before history.keep, %v",
				v.rules.Keep))
			return nil
		}
	}
	for _, k := range v.rules.Known {
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
	if link.Entry.Link(at.Hash) != link.Hash || !link.Entry.At.Equal(link.At) ||
		link.Entry.ID != link.ID {
		return v.found(link.Seq, &link.ID, "the entry or its link was changed")
	}
	if v.ahead == nil && link.At.After(v.Now.Add(maxAhead)) {
		v.ahead = &link
	}
	v.Checked++
	return true
}

// agree reports whether no known head has the Seq of at with another hash.
func (v *ChainCheck) agree(at ChainHead) bool {
	for _, k := range v.rules.Known {
		if k.Seq == at.Seq && k.Hash != at.Hash {
			return v.found(at.Seq, nil, "the chain had another hash here before")
		}
	}
	return true
}

// checkRest checks what is not in a link. The last link is at.
func (v *ChainCheck) checkRest(at ChainHead) {
	for _, k := range v.rules.Known {
		if k.Seq > v.Head.Seq {
			v.found(v.Head.Seq+1, nil, fmt.Sprintf("the chain had %s before",
				plural.Of(int(k.Seq), "link", "links")))
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
	case v.ahead != nil:
		v.found(v.ahead.Seq, &v.ahead.ID, "the time of the entry is ahead of the store's clock")
	case v.rules.MaxUnsealed > 0 && v.OldestUnsealed != nil &&
		v.Now.Sub(*v.OldestUnsealed) > v.rules.MaxUnsealed:
		v.Unattended = true
		v.found(0, nil, fmt.Sprintf("%s no link, the oldest for more than %v",
			plural.Of(v.Unsealed, "entry has", "entries have"), v.rules.MaxUnsealed))
	}
}
