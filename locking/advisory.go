package locking

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	maxKeyBytes   = 250
	maxOwnerBytes = 200 // of each field in a value, so that a lock's has at most 4 KiB
	gateKind      = "gate"
)

// advisoryLock is one key of a lock, as it was stored.
type advisoryLock struct {
	resource Resource
	key      string
	nonce    string
	value    []byte
}

// content is an entry's value.
type content struct {
	Nonce    string `json:"nonce"`
	Resource string `json:"resource"`          // in full, also where the key is a hash
	Lock     string `json:"lock_id,omitempty"` // where there are Grants
	// Session is the owner's in the store of the second stage: once it is dead the
	// advisoryLock is anybody's to remove. Zero where there is none.
	Session uuid.UUID `json:"session,omitzero"`
	Holder
}

// encode returns the value to store. Owner fields are free text: they are cut
// and cleaned, so that the value stays small and readable.
func (c content) encode() ([]byte, error) {
	c.Owner = c.Owner.cleaned()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("value of a lock: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// decode reads a value; what this package did not write for this resource
// gives false.
func decode(value []byte, resource string) (content, bool) {
	var c content
	if err := json.Unmarshal(value, &c); err != nil || c.Nonce == "" || c.Resource != resource {
		return content{}, false
	}
	return c, true
}

// cleaned returns what every store can keep, and what is shown of an owner.
func (o Owner) cleaned() Owner { return Owner{clean(o.Replica), clean(o.Job), clean(o.Run)} }

func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) <= maxOwnerBytes {
		return text
	}
	cut := maxOwnerBytes
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// keyOf returns the key of a resource's or gate's full name, such as
// "table:public/orders". A name that is too long for a key, or holds what a key
// can't, is hashed; "#" begins no kind, so that hashes meet no other key.
func keyOf(namespace, name string) string {
	key := namespace + ":" + name
	if len(key) <= maxKeyBytes && !strings.ContainsFunc(key, notInKeys) {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return namespace + ":#" + hex.EncodeToString(sum[:])
}

func notInKeys(r rune) bool {
	return r <= ' ' || r == 0x7f || unicode.IsControl(r) || unicode.IsSpace(r)
}

// checkNamespace refuses what can't begin a key.
func checkNamespace(namespace string) error {
	const most = 100
	if namespace == "" || len(namespace) > most || strings.ContainsFunc(namespace, notInKeys) {
		return fmt.Errorf("namespace: found %q, expected 1 to %d bytes without spaces and "+
			"control characters", namespace, most)
	}
	return nil
}

// checkTTL refuses a lifetime that backends can't keep.
func checkTTL(kind, name string, ttl time.Duration) error {
	const most = 30 * 24 * time.Hour // longer is a date to memcached
	if ttl < time.Second || ttl > most {
		return fmt.Errorf("time of %s %s: found %s, expected 1s to %s", kind, name, ttl, most)
	}
	return nil
}

// wholeSeconds rounds a lifetime to what backends can keep, never to 0, which
// would be for ever.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, d.Truncate(time.Second))
}
