package password

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func TestNewHashMatchesItsPassword(t *testing.T) {
	first, err := New("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	second, err := New("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if first == second || !strings.HasPrefix(first, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hashes are %q and %q, want two salts", first, second)
	}
	hash, err := Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	if !hash.Matches("correct horse") {
		t.Error("the right password does not match")
	}
	for _, wrong := range []string{"", "correct horsf", "correct horse ",
		strings.Repeat("x", Longest+1)} {
		if hash.Matches(wrong) {
			t.Errorf("%q matches", wrong)
		}
	}
	if _, err := New(strings.Repeat("x", Longest+1)); err == nil {
		t.Error("a password that never matches was hashed")
	}
	for _, shown := range []string{fmt.Sprint(hash),
		fmt.Sprintf("%+v %#v %x %q", hash, hash, hash, []Hash{hash})} {
		if strings.Trim(strings.ReplaceAll(shown, "[redacted]", ""), " []") != "" {
			t.Errorf("a hash prints as %q", shown)
		}
	}
}

// TestKnownAnswers checks Matches with hashes of other programs: the reference implementation of
// argon2, and crypt(3).
func TestKnownAnswers(t *testing.T) {
	for text, right := range map[string]string{
		"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc": "password",
		"$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe":                           "password",
	} {
		hash, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !hash.Matches(right) || hash.Matches(right+"x") {
			t.Errorf("%s does not match %q alone", text, right)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const salt, key = "c29tZXNhbHQ", "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	taken := "$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$" + key
	if _, err := Parse(taken); err != nil {
		t.Fatal(err)
	}
	weak, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "plain": "hunter2", "argon2i": strings.Replace(taken, "argon2id", "argon2i", 1),
		"old version": strings.Replace(taken, "v=19", "v=16", 1), "little memory": strings.Replace(taken, "m=19456", "m=7167", 1),
		"much memory":   strings.Replace(taken, "m=19456", "m=262145", 1),
		"huge memory":   strings.Replace(taken, "m=19456", "m=4294967295", 1),
		"overflow":      strings.Replace(taken, "m=19456", "m=4294986752", 1),
		"no passes":     strings.Replace(taken, "t=2", "t=0", 1),
		"many passes":   strings.Replace(taken, "t=2", "t=11", 1),
		"much work":     strings.Replace(taken, "m=19456,t=2", "m=262144,t=5", 1),
		"no lanes":      strings.Replace(taken, "p=1", "p=0", 1),
		"many lanes":    strings.Replace(taken, "p=1", "p=17", 1),
		"lanes wrapped": strings.Replace(taken, "p=1", "p=257", 1),
		"order":         strings.Replace(taken, "m=19456,t=2", "t=2,m=19456", 1),
		"fourth param":  strings.Replace(taken, "p=1", "p=1,data=x", 1),
		"negative":      strings.Replace(taken, "t=2", "t=-2", 1),
		"short salt":    strings.Replace(taken, salt, "c29tZQ", 1),
		"long salt":     strings.Replace(taken, salt, strings.Repeat("AAAA", 22), 1),
		"short key":     strings.Replace(taken, key, "AAAA", 1),
		"padded":        taken + "=", "trailing": taken + "$x",
		"bcrypt cost": "$2y$16" + string(weak[6:]), "bcrypt long": string(weak) + "x", "bcrypt short": string(weak[:59]),
		"other crypt": "$1$abc$" + strings.Repeat("x", 53),
	} {
		hash, err := Parse(text)
		if !errors.Is(err, ErrHash) {
			t.Errorf("%s: %q was taken: %v", name, text, err)
		}
		if hash.salt != nil || hash.bcrypt != nil {
			t.Errorf("%s: a refused hash has parts", name)
		}
		if text != "" && err != nil && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error shows the hash", name)
		}
	}
}

func TestCost(t *testing.T) {
	const salted = "$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	const crypted = "$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe"
	for text, want := range map[string]string{
		"$2y$04" + crypted: "bcrypt 04", "$2a$04" + crypted: "bcrypt 04",
		"$2y$12" + crypted:                        "bcrypt 12",
		"$argon2id$v=19$m=19456,t=2,p=1" + salted: "argon2id m=19456,t=2,p=1,key=32",
		"$argon2id$v=19$m=65536,t=3,p=4" + salted: "argon2id m=65536,t=3,p=4,key=32",
	} {
		hash, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := hash.Cost(); got != want {
			t.Errorf("%s costs %q, want %q", text, got, want)
		}
	}
}
