package cli

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// auditedFile returns a configuration whose store has n entries in its audit log.
func auditedFile(t *testing.T, n int) (config string, entries []storage.Audited) {
	t.Helper()
	config, file := filepath.Join(t.TempDir(), "holdfast.yaml"),
		filepath.Join(t.TempDir(), "holdfast.db")
	text := fmt.Sprintf("database: {url: %q}\njobs: []\n", "sqlite://"+file)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, config, "migrate")
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i := range n {
		target := storage.Target{Kind: storage.TargetGroup, Name: fmt.Sprintf("a<%d>", i)}
		if _, err := store.Pause(t.Context(),
			storage.Action{Actor: "ann", Via: "go"}, target); err != nil {
			t.Fatal(err)
		}
	}
	entries, err = store.Audit(t.Context(),
		storage.AuditFilter{OldestFirst: true, Limit: storage.MaxBatch})
	if err != nil || len(entries) != n {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	return config, entries
}

// runs returns the output of a command that succeeds.
func runs(t *testing.T, config string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Execute(t.Context(), append(args, "-c", config), &out, &out,
		app.Options{}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// exported decodes the lines of an export.
func exported(t *testing.T, text string) []storage.Audited {
	t.Helper()
	var entries []storage.Audited
	for line := range strings.Lines(text) {
		var entry storage.Audited
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		entries = append(entries, entry)
	}
	return entries
}

func TestAuditExport(t *testing.T) {
	config, entries := auditedFile(t, 5)
	for _, format := range []string{"yaml", "wide"} {
		var out bytes.Buffer
		err := Execute(t.Context(), []string{"audit", "export", "-c", config, "-o", format}, &out,
			&out, app.Options{})
		if want := "-o " + format + ": expected json"; err == nil || out.Len() > 0 ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %q, %v, want %q", &out, err, want)
		}
	}
	text := runs(t, config, "audit", "export")
	if asked := runs(t, config, "audit", "export", "-o", "json"); asked != text {
		t.Errorf("-o json: got\n%s\nwant\n%s", asked, text)
	}
	if !strings.Contains(text, `"target":"group a<3>"`) {
		t.Errorf("the export escapes targets: %s", text)
	}
	at := func(i int) string { return entries[i].At.Format(time.RFC3339Nano) }
	for _, test := range []struct {
		args  []string
		first int
		end   int
	}{
		{nil, 0, 5}, {[]string{"--since", at(2)}, 2, 5}, {[]string{"--until", at(2)}, 0, 2},
		{[]string{"--since", at(1), "--until", at(4)}, 1, 4},
	} {
		found := exported(t, runs(t, config, append([]string{"audit", "export"}, test.args...)...))
		var want []string
		for _, entry := range entries {
			if !entry.At.Before(entries[test.first].At) &&
				(test.end == 5 || entry.At.Before(entries[test.end].At)) {
				want = append(want, entry.ID.String())
			}
		}
		var got []string
		for _, entry := range found {
			got = append(got, entry.ID.String())
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%v: %v, want %v", test.args, got, want)
		}
	}
	var out bytes.Buffer
	if err := Execute(t.Context(), []string{"audit", "export", "--since", "monday", "-c", config},
		&out, &out, app.Options{}); err == nil || !strings.Contains(err.Error(), "--since") {
		t.Errorf("a wrong time: %v", err)
	}
}

// TestAuditExportOfAnInvalidDetail checks that a detail that is not JSON, which somebody wrote into
// the file, does not keep other entries from the export.
func TestAuditExportOfAnInvalidDetail(t *testing.T) {
	config, entries := auditedFile(t, 3)
	loaded, err := (&commandLine{configPath: config}).load()
	if err != nil {
		t.Fatal(err)
	}
	file, err := sql.Open("sqlite", strings.TrimPrefix(loaded.Database.URL.Reveal(), "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	const invalid = `{"a`
	_, err = file.ExecContext(t.Context(), "UPDATE holdfast_audit SET detail = ? WHERE id = ?",
		invalid, entries[0].ID.String())
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	found := exported(t, runs(t, config, "audit", "export"))
	if len(found) != 3 || string(found[0].InvalidDetail) != invalid || found[0].Detail != nil {
		t.Errorf("got %+v, want 3 entries and the invalid detail of the first", found)
	}
	if listed := runs(t, config, "audit", "-o", "json"); strings.Count(listed, `"id"`) != 3 {
		t.Errorf("got the list %s, want 3 entries", listed)
	}
}

// TestAuditExportReadsPages checks that pages have no gaps and no repetitions.
func TestAuditExportReadsPages(t *testing.T) {
	config, entries := auditedFile(t, 5)
	c := &commandLine{configPath: config}
	for limit := 1; limit <= 6; limit++ {
		var out bytes.Buffer
		if err := c.withCluster(t.Context(), func(in cluster) error {
			return in.ExportAudit(t.Context(), storage.AuditFilter{Limit: limit}, writeAudit(&out))
		}); err != nil {
			t.Fatal(err)
		}
		found := exported(t, out.String())
		for i := range min(len(found), len(entries)) {
			if found[i].ID != entries[i].ID {
				t.Errorf("pages of %d: entry %d is %v, want %v", limit, i, found[i], entries[i])
			}
		}
		if len(found) != len(entries) {
			t.Errorf("pages of %d: %d entries, want %d", limit, len(found), len(entries))
		}
	}
}

// openConfigured opens the store of a configuration file until the end of the test.
func openConfigured(t *testing.T, path string) app.Storage {
	t.Helper()
	return openStore(t, path, false)
}

// openStore opens the store of a configuration until the test ends. Running says that it is that of
// a scheduler.
func openStore(t *testing.T, path string, running bool) app.Storage {
	t.Helper()
	config, err := (&commandLine{configPath: path}).load()
	if err != nil {
		t.Fatal(err)
	}
	store, err := openDatabase(t.Context(), config, running, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}
