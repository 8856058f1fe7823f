package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/configs"
)

// hashPassword runs the command with a line on standard input.
func hashPassword(t *testing.T, typed string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := &commandLine{out: &out, format: "json"}
	cmd := c.hashPasswordCommand()
	cmd.SetIn(strings.NewReader(typed))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestConfigAcceptsPasswordHash(t *testing.T) {
	out, err := hashPassword(t, "correct horse\r\n")
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Hash string `json:"password_hash"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	hash, err := password.Parse(result.Hash)
	if err != nil || !hash.Matches("correct horse") ||
		!strings.HasPrefix(result.Hash, "$argon2id$") {
		t.Errorf("got %s (%v), want an argon2id hash of the password", out, err)
	}
	if _, err := configs.Parse("c.yaml",
		[]byte("admin: {users: [{name: a, password_hash: '"+result.Hash+"'}]}")); err != nil {
		t.Error(err)
	}
	for _, typed := range []string{"", "\n", strings.Repeat("x", password.Longest+1) + "\n"} {
		if out, err := hashPassword(t, typed); err == nil {
			t.Errorf("hash of a password with %d bytes: %s, want an error", len(typed), out)
		}
	}
}

func TestConfigAcceptsTokenHash(t *testing.T) {
	seen := make(map[string]bool)
	for range 2 {
		out, err := hashPassword(t, "", "--token")
		if err != nil {
			t.Fatal(err)
		}
		var result struct {
			Token string
			Hash  string `json:"token_hash"`
		}
		if err := json.Unmarshal([]byte(out), &result); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(result.Token))
		if result.Hash != hex.EncodeToString(sum[:]) || len(result.Token) < 26 ||
			seen[result.Token] {
			t.Errorf("got %s", out)
		}
		seen[result.Token] = true
		if _, err := configs.Parse("c.yaml",
			[]byte("admin: {tokens: [{name: a, token_hash: "+result.Hash+"}]}")); err != nil {
			t.Error(err)
		}
	}
}
