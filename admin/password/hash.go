// Package password makes and checks the hashes of passwords: argon2id in the
// PHC string format, and bcrypt, which older tools write.
//
// The parameters in a hash decide how much memory and time a check takes. Everybody who can open
// the sign-in page can cause such checks. So Parse refuses parameters that take more than 256 MiB,
// or more than a second or two. It also refuses parameters of argon2id that are too weak.
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Longest is how many bytes a password may have. Bcrypt looks at the first 72.
const Longest = 1024

// What New uses: OWASP's recommendation for argon2id, which takes 19 MiB and
// about 30 ms. More memory would be stronger, but a replica has it beside
// everything else it does.
const (
	newMemory = 19 << 10 // KiB
	newPasses = 2
	newLanes  = 1
	newSalt   = 16 // bytes
	newKey    = 32
)

// What Parse allows: at most a second or two and 256 MiB a check.
const (
	leastMemory = 7 << 10 // KiB: the lowest that OWASP lists
	mostMemory  = 256 << 10
	mostPasses  = 10
	mostWork    = 1 << 20 // KiB times passes
	mostLanes   = 16
	leastSalt   = 8 // bytes
	leastKey    = 16
	mostBytes   = 64 // of salt and of key
	mostCost    = 15 // of bcrypt
)

// Expected describes the hashes that Parse accepts. It is for error messages.
const Expected = "an argon2id hash of 7 to 256 MiB as `scheduler hash-password` prints it, or a " +
	"bcrypt hash of cost 15 at most"

// ErrHash is the error of Parse for a text that is not one of these hashes. It never
// contains the text.
var ErrHash = errors.New("expected " + Expected)

// Hash is a parsed hash. It may be used concurrently.
type Hash struct {
	bcrypt []byte // nil: argon2id

	memory, passes uint32
	lanes          uint8
	salt, key      []byte
}

// New returns the argon2id hash of a password, with a salt of its own.
func New(password string) (string, error) {
	if len(password) > Longest {
		return "", fmt.Errorf("found %d bytes, expected at most %d", len(password), Longest)
	}
	salt := make([]byte, newSalt)
	_, _ = rand.Read(salt) // never fails, by its documentation
	key := argon2.IDKey([]byte(password), salt, newPasses, newMemory, newLanes, newKey)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, newMemory, newPasses,
		newLanes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key)), nil
}

// Parse reads a hash; it returns ErrHash for anything else.
func Parse(text string) (Hash, error) {
	if rest, ok := strings.CutPrefix(text, "$argon2id$"); ok {
		return parseArgon2id(rest)
	}
	cost, err := bcrypt.Cost([]byte(text))
	if err != nil || cost > mostCost || len(text) != 60 || !strings.HasPrefix(text, "$2") {
		return Hash{}, ErrHash
	}
	return Hash{bcrypt: []byte(text)}, nil
}

// parseArgon2id reads v=19$m=…,t=…,p=…$salt$key, in this order as every
// implementation writes it.
func parseArgon2id(text string) (h Hash, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 4 || parts[0] != "v="+strconv.Itoa(argon2.Version) {
		return h, ErrHash
	}
	params := strings.Split(parts[1], ",")
	if len(params) != 3 {
		return h, ErrHash
	}
	var numbers [3]uint32
	for i, name := range []string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(params[i], name)
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil {
			return h, ErrHash
		}
		numbers[i] = uint32(n)
	}
	h.memory, h.passes = numbers[0], numbers[1]
	if h.memory < leastMemory || h.memory > mostMemory || h.passes < 1 || h.passes > mostPasses ||
		h.memory*h.passes > mostWork || numbers[2] < 1 || numbers[2] > mostLanes {
		return Hash{}, ErrHash
	}
	h.lanes = uint8(numbers[2])
	var errSalt, errKey error
	h.salt, errSalt = base64.RawStdEncoding.Strict().DecodeString(parts[2])
	h.key, errKey = base64.RawStdEncoding.Strict().DecodeString(parts[3])
	if errSalt != nil || errKey != nil || len(h.salt) < leastSalt || len(h.salt) > mostBytes ||
		len(h.key) < leastKey || len(h.key) > mostBytes {
		return Hash{}, ErrHash
	}
	return h, nil
}

// Matches reports whether the password is the one that was hashed. It keeps a core
// busy for a time that depends on Cost. The caller must limit the number of
// concurrent calls.
func (h Hash) Matches(password string) bool {
	if len(password) > Longest {
		return false
	}
	if h.bcrypt != nil {
		return bcrypt.CompareHashAndPassword(h.bcrypt, []byte(password)) == nil
	}
	key := argon2.IDKey([]byte(password), h.salt, h.passes, h.memory, h.lanes, uint32(len(h.key)))
	return subtle.ConstantTimeCompare(key, h.key) == 1
}

// Cost returns the kind of the hash and its parameters. Matches takes the same time for hashes with
// equal costs.
func (h Hash) Cost() string {
	if h.bcrypt != nil {
		return "bcrypt " + string(h.bcrypt[len("$2a$"):len("$2a$10")])
	}
	return fmt.Sprintf("argon2id m=%d,t=%d,p=%d,key=%d", h.memory, h.passes, h.lanes, len(h.key))
}

// String returns "[redacted]", so that a Hash can be printed without its contents.
func (h Hash) String() string { return "[redacted]" }

// Format writes String for every verb.
func (h Hash) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(h.String())) }
