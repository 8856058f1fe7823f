package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAuditWithTheRoleOfChecks runs the commands for checks with the rights that
// deploy/postgres/roles.sql gives to holdfast_audit. An action is refused.
func TestAuditWithTheRoleOfChecks(t *testing.T) {
	d := newDoctored(t)
	owner := "database: {url: '" + d.owner + "'}\n"
	migrate(t, owner)
	roles, err := os.ReadFile("../../deploy/postgres/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, found := strings.Cut(string(roles), "-- Checks of the audit log.")
	if !found || strings.Count(rights, "holdfast_audit;") != 3 {
		t.Fatalf("roles.sql has no part for checks: %s", rights)
	}
	d.exec("--" + strings.ReplaceAll(rights, "holdfast_audit;", "doctor_store;"))

	files := t.TempDir()
	config := func(name, text string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	writer := config("owner.yaml", owner)
	runs(t, writer, "pause", "--all", "--reason", "move")
	store := openConfigured(t, writer)
	if n, err := store.SealAudit(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("sealed %d, %v", n, err)
	}
	checker := config("checker.yaml", "database: {url: '"+d.store+"'}\naudit: {chain: true}\n")
	out, code, err := verify(t, checker, "-o", "json")
	var v verifiedAudit
	if wrong := json.Unmarshal([]byte(out), &v); wrong != nil || code != 0 || v.Checked != 1 {
		t.Errorf("verify: %d, %s (%v, %v), want 1 checked link", code, out, err, wrong)
	}
	entries := exported(t, runs(t, checker, "audit", "export"))
	if len(entries) != 1 || entries[0].Action != "pause" || entries[0].Reason != "move" {
		t.Errorf("export: %+v, want the pause", entries)
	}
	if n := storage.SealAll(storage.ChainHead{}, entries); v.Head == "" ||
		!strings.HasPrefix(v.Head, fmt.Sprintf("1:%s", n[0].Hash)) {
		t.Errorf("the head is %s, the export has the hash %s", v.Head, n[0].Hash)
	}
	var refused bytes.Buffer
	if err := Execute(t.Context(), []string{"resume", "--all", "-c", checker}, &refused, &refused,
		app.Options{}); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("resume: got %v, want permission denied", err)
	}
}
