package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/app"
)

// verify runs the command "audit verify" and returns its output, error and exit code.
func verify(t *testing.T, config string, args ...string) (string, int, error) {
	t.Helper()
	var out bytes.Buffer
	err := Execute(t.Context(), append([]string{"audit", "verify", "-c", config}, args...), &out,
		&out, app.Options{})
	var own *ExitError
	switch {
	case err == nil:
		return out.String(), 0, nil
	case !errors.As(err, &own):
		t.Fatalf("error without an exit code: %v", err)
	}
	return out.String(), own.Code, err
}

func TestAuditVerify(t *testing.T) {
	config, _ := auditedFile(t, 3)
	for _, wrong := range [][]string{nil, {"--wrong"}, {"--known", "1:abc"}} {
		if _, code, err := verify(t, config, wrong...); code != notVerified || err.Error() == "" {
			t.Errorf("%v: exit code %d, %v", wrong, code, err)
		}
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(text, "audit: {chain: true}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code, _ := verify(t, config); code != 0 || !strings.Contains(out, "oldest unsealed") {
		t.Errorf("before the seal: %d, %s", code, out)
	}
	store := openConfigured(t, config)
	if n, err := store.SealAudit(t.Context(), 10); n != 3 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	out, code, _ := verify(t, config, "-o", "json")
	var v verifiedAudit
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || !v.Matches ||
		v.Checked != 3 || v.Unsealed != 0 {
		t.Fatalf("got exit code %d, %s (%v), want 0 and 3 entries that match", code, out, err)
	}
	if out, code, _ := verify(t, config, "--known", v.Head); code != 0 {
		t.Errorf("with its own head: %d, %s", code, out)
	}
	// A chain that does not have the head of another one, as after a replacement of all entries.
	digit := "0"
	if strings.HasSuffix(v.Head, digit) {
		digit = "1"
	}
	out, code, _ = verify(t, config, "--known", v.Head[:len(v.Head)-1]+digit)
	if code != chainBroken || !strings.Contains(out, "DOES NOT MATCH") ||
		!strings.Contains(out, "another hash") {
		t.Errorf("with another head: %d, %s", code, out)
	}
}
