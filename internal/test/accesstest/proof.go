package accesstest

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// DeployToken is the token of a client.
const DeployToken = "deploy-token-deploy-token"

// Hash returns a bcrypt hash of a password with the lowest cost.
func Hash(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// Sum returns the hash of a token.
func Sum(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
