package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/app"
)

func TestImportCrontab(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crontab")
	imported := func(text string) (out, warnings string, err error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o, w bytes.Buffer
		err = Execute(t.Context(), []string{"import", "crontab", path, "--timezone", "UTC"}, &o, &w,
			app.Options{})
		return o.String(), w.String(), err
	}
	out, warnings, err := imported("MAILTO=ops\n30 2 * * * /srv/backup.sh\n")
	if err != nil || !strings.Contains(out, "name: backup") || !strings.Contains(out, `"UTC"`) ||
		!strings.HasPrefix(warnings, "warning: line 1: Holdfast sends no mails") {
		t.Errorf("got %q, warnings %q, %v", out, warnings, err)
	}
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(config, []byte("database: {url: 'sqlite://x.db'}\n"+out),
		0o600); err != nil {
		t.Fatal(err)
	}
	if text := commandOutput(t, "validate", "-c", config); text != config+" is valid: 1 job\n" {
		t.Errorf("validate: got %q", text)
	}
	out, warnings, err = imported("@reboot /srv/start\n@daily date\n")
	if err == nil || !strings.Contains(out, "name: date") ||
		!strings.Contains(warnings, "line 1: @reboot") {
		t.Errorf("a line without a job: got %q, warnings %q, %v", out, warnings, err)
	}
	for format, want := range map[string]string{"json": "-o json: expected yaml",
		"wide": "-o wide: expected yaml", "yaml": ""} {
		var written bytes.Buffer
		err := Execute(t.Context(), []string{"import", "crontab", path, "-o", format}, &written,
			&bytes.Buffer{}, app.Options{})
		if refused := want != ""; err == nil || refused != (written.Len() == 0) ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("-o %s: got %q, %v, want %q", format, &written, err, want)
		}
	}
	if err := Execute(t.Context(), []string{"import", "crontab", path + "x"}, &bytes.Buffer{},
		&bytes.Buffer{}, app.Options{}); err == nil {
		t.Error("no file: got no error")
	}
}
