package locking

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

const (
	maxKeyBytes   = 250
	maxOwnerBytes = 200 // of each field in a value; a lock's value has at most 4 KiB
	gateKind      = "gate"
	markKind      = "mark"
)

// advisoryLock is one key of a lock, as it was stored.
type advisoryLock struct {
	resource Resource
	key      string
	nonce    string
	value    []byte
	version  Version // of the item in the backend; zero if unknown
}

// content is the value of an advisory lock.
type content struct {
	Nonce    string `json:"nonce"`
	Resource string `json:"resource"`          // in full, even if the key is a hash
	Lock     string `json:"lock_id,omitempty"` // where there are Grants
	// Session is the owner's session in the store. After its death any replica may
	// remove the advisory lock. Zero without a session.
	Session uuid.UUID `json:"session,omitzero"`
	Holder
}

// encode returns the value to store. Owner fields are free text. encode cuts and
// cleans them, so that the value stays small and readable.
//
// The value is JSON. encoding/json would take several times as long, for each name of each try.
func (c content) encode() []byte {
	owner := c.Owner.cleaned()
	out := appendText(append(make([]byte, 0, 320), `{"nonce":`...), c.Nonce)
	out = appendText(append(out, `,"resource":`...), c.Resource)
	if c.Lock != "" {
		out = appendText(append(out, `,"lock_id":`...), c.Lock)
	}
	if c.Session != uuid.Nil {
		out = appendText(append(out, `,"session":`...), c.Session.String())
	}
	out = appendText(append(out, `,"replica":`...), owner.Replica)
	out = appendText(append(out, `,"job":`...), owner.Job)
	out = appendText(append(out, `,"run_id":`...), owner.Run)
	if !c.Since.IsZero() {
		out = append(c.Since.AppendFormat(append(out, `,"since":"`...), time.RFC3339Nano), '"')
	}
	return append(out, '}')
}

// appendText appends the text as a string of JSON. Bytes that are not UTF-8 become U+FFFD.
func appendText(out []byte, text string) []byte {
	out = append(out, '"')
	if isPlain(text) {
		return append(append(out, text...), '"')
	}
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r < ' ':
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

// isPlain reports whether a text consists of visible ASCII characters and spaces, none of which is
// escaped in JSON. Most names do.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// decode reads a value. It returns false for a value that this package did not write
// for the resource.
func decode(value []byte, resource string) (content, bool) {
	var c content
	if err := json.Unmarshal(value, &c); err != nil || c.Nonce == "" || c.Resource != resource {
		return content{}, false
	}
	return c, true
}

// decodedValues are values that were decoded, with their contents. Waiters look at the value of a
// held lock again and again. It may be used concurrently.
type decodedValues struct {
	mu       sync.Mutex
	contents map[string]content
}

const mostDecoded = 1024 // values of at most 4 KiB

// decode is the function decode.
func (d *decodedValues) decode(value []byte, resource string) (content, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.contents[string(value)]; ok {
		return c, c.Resource == resource
	}
	c, ok := decode(value, resource)
	if ok {
		if d.contents == nil || len(d.contents) >= mostDecoded {
			d.contents = map[string]content{}
		}
		d.contents[string(value)] = c
	}
	return c, ok
}

// cleaned returns an owner that every store accepts and every reader can show.
func (o Owner) cleaned() Owner { return Owner{clean(o.Replica), clean(o.Job), clean(o.Run)} }

func clean(text string) string {
	if isPlain(text) && len(text) <= maxOwnerBytes {
		return text
	}
	text = strings.Map(func(r rune) rune {
		if runes.IsControl(r) || r == utf8.RuneError {
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
// "table:public/orders". A name that is too long for a key, or has characters that
// keys cannot have, is hashed. No kind begins with "#", so a hash equals no other
// key.
func keyOf(namespace, name string) string {
	key := namespace + ":" + name
	if len(key) <= maxKeyBytes && fitsKeys(key) {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return namespace + ":#" + hex.EncodeToString(sum[:])
}

// fitsKeys reports whether keys may have all characters of the text.
func fitsKeys(text string) bool {
	for i := range len(text) {
		switch {
		case text[i] >= utf8.RuneSelf:
			return !strings.ContainsFunc(text[i:], notInKeys)
		case notInKeys(rune(text[i])):
			return false
		}
	}
	return true
}

func notInKeys(r rune) bool {
	if r <= 0x7f {
		return r <= ' ' || r == 0x7f
	}
	return runes.IsControl(r) || unicode.IsSpace(r)
}

// checkNamespace returns an error for a namespace that cannot begin a key.
func checkNamespace(namespace string) error {
	const most = 100
	if namespace == "" || len(namespace) > most || !fitsKeys(namespace) {
		return fmt.Errorf("namespace: found %q, expected 1 to %d bytes without spaces and "+
			"control characters", namespace, most)
	}
	return nil
}

// checkTTL returns an error for a lifetime that backends cannot store.
func checkTTL(kind, name string, ttl time.Duration) error {
	const most = 30 * 24 * time.Hour // memcached reads a longer one as a date
	if ttl < time.Second || ttl > most {
		return fmt.Errorf("time of %s %s: found %s, expected 1s to %s", kind, name, ttl, most)
	}
	return nil
}

// wholeSeconds rounds a lifetime down to whole seconds. It returns at least a
// second, because 0 means no expiry.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, d.Truncate(time.Second))
}
