package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/storage"
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
	for _, wrong := range [][]string{nil, {"--wrong"}, {"--known", "1:abc"},
		{"--known", "1:" + strings.Repeat("0", 64) + ":monday"}, {"--max-unsealed", "-1s"}} {
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
	// any entry is older than a nanosecond
	out, code, _ := verify(t, config, "--max-unsealed", "1ns")
	if code != chainBroken || !strings.Contains(out, "3 entries have no link") ||
		!strings.Contains(out, "matches") || strings.Contains(out, "DOES NOT MATCH") {
		t.Errorf("a chain that no replica seals: %d, %s", code, out)
	}
	out, code, _ = verify(t, config, "--max-unsealed", "1ns", "-o", "json")
	var waiting verifiedAudit
	if err := json.Unmarshal([]byte(out), &waiting); err != nil || code != chainBroken ||
		!waiting.Matches || waiting.Problem == "" {
		t.Errorf("its JSON: %d, %s (%v), want that it matches, with a problem", code, out, err)
	}
	store := openConfigured(t, config)
	if n, err := store.SealAudit(t.Context(), 10); n != 3 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	out, code, _ = verify(t, config, "-o", "json")
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
	head := v.Head[:len("3:")+64]
	if strings.HasSuffix(head, digit) {
		digit = "1"
	}
	out, code, _ = verify(t, config, "--known", head[:len(head)-1]+digit)
	if code != chainBroken || !strings.Contains(out, "DOES NOT MATCH") ||
		!strings.Contains(out, "another hash") {
		t.Errorf("with another head: %d, %s", code, out)
	}
	// The anchor moves past a head of today, which pruning would keep.
	if _, err := openStore(t, config, true).Prune(t.Context(), uuid.UUID{1},
		storage.PruneRequest{Keep: -time.Hour, Limit: 10}); err != nil {
		t.Fatal(err)
	}
	out, code, _ = verify(t, config, "--known", v.Head)
	if code != chainBroken || !strings.Contains(out, "before history.keep") {
		t.Errorf("a young head that was deleted: %d, %s", code, out)
	}
}
