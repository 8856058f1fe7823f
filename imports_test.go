package holdfast

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-dev/holdfast"

// layers are the packages from the top down: each may import those beneath
// it. The stores and handlers stand beside jobs' other parts.
var layers = []string{"cmd", "", "internal/cli", "internal/app", "admin", "admin/password",
	"internal/metrics", "internal/tracing",
	"jobs/handlers", "jobs/postgres", "jobs/sqlite", "jobs/webhook", "jobs", "jobs/schedule",
	"locking/memcached", "locking/memory", "locking", "retry", "internal/suggest", "internal/batch",
	"internal/breaker", "internal/session", "internal/attempt", "internal/output"}

// onlyIn are the folders in which a library may be imported.
var onlyIn = map[string][]string{
	"github.com/jackc/pgx/v5":                 {"jobs/postgres"},
	"github.com/bradfitz/gomemcache":          {"locking/memcached"},
	"github.com/robfig/cron/v3":               {"jobs/schedule"},
	"modernc.org/sqlite":                      {"jobs/sqlite"},
	"github.com/spf13/cobra":                  {"internal/cli"},
	"github.com/goccy/go-yaml":                {"configs"},
	"github.com/chromedp/chromedp":            nil,
	"github.com/google/go-cmp":                nil,
	"pgregory.net/rapid":                      nil,
	"github.com/anishathalye/porcupine":       nil,
	"testing":                                 nil,
	"github.com/rs/zerolog/log":               nil, // the global logger: for nobody
	"github.com/jackc/pgx/v5/stdlib":          nil,
	"github.com/holdfast-dev/holdfast":        {"cmd/scheduler"},
	module + "/configs":                       {"", "internal/app", "internal/cli"},
	module + "/admin":                         {"internal/app", "internal/cli"},
	module + "/jobs/handlers":                 {"internal/app"},
	module + "/jobs/webhook":                  {"internal/app"},
	module + "/jobs/sqlite":                   {"internal/app", "internal/cli"},
	module + "/locking/memory":                {"internal/app"},
	module + "/admin/password":                {"internal/cli", "admin", "configs"},
	"golang.org/x/crypto/argon2":              {"admin/password"},
	"golang.org/x/crypto/bcrypt":              {"admin/password"},
	"github.com/gofrs/flock":                  {"jobs/sqlite"},
	"github.com/jackc/pgx/v5/pgxpool":         {"jobs/postgres"},
	"github.com/jackc/pgx/v5/pgconn":          {"jobs/postgres"},
	"github.com/bradfitz/gomemcache/memcache": {"locking/memcached"},
}

// beneathOnly are the folders in which libraries of several packages may be imported,
// by what their paths begin with; all that fit must allow it. Jobs make spans by
// OpenTelemetry's interfaces alone, and count nothing themselves.
var beneathOnly = map[string][]string{
	"github.com/prometheus/":             {"internal/metrics"},
	"go.opentelemetry.io/":               {"jobs", "internal/tracing"},
	"go.opentelemetry.io/otel/sdk/":      {"internal/tracing"},
	"go.opentelemetry.io/otel/exporters": {"internal/tracing"},
	"go.opentelemetry.io/proto":          nil, // tests only
	"google.golang.org/":                 nil,
	module + "/internal/test/":           nil,
}

func TestImportsPointOneWay(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && path != "."
		if entry.IsDir() && (hidden ||
			slices.Contains([]string{"examples", "internal/test"}, path)) {
			return filepath.SkipDir // they use everything, and only tests use them
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			seen++
			checkImport(t, path, folder, imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 300 {
		t.Errorf("only %d imports looked at: the walk has lost its way", seen)
	}
}

func checkImport(t *testing.T, path, folder, imported string) {
	t.Helper()
	if allowed, limited := onlyIn[imported]; limited && !slices.Contains(allowed, folder) {
		t.Errorf("%s imports %s, which is for %q only", path, imported, allowed)
	}
	for prefix, allowed := range beneathOnly {
		if strings.HasPrefix(imported, prefix) && !slices.Contains(allowed, folder) {
			t.Errorf("%s imports %s, which is for %q only", path, imported, allowed)
		}
	}
	beneath, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		return
	}
	if folder == "configs" {
		if !slices.Contains([]string{"admin/password", "jobs/schedule", "locking", "retry",
			"internal/suggest", "internal/batch", "internal/session"}, beneath) {
			t.Errorf("%s imports %s: configs imports only what it needs to describe things", path,
				beneath)
		}
		return
	}
	if beneath != "configs" && layer(t, beneath) <= layer(t, folder) {
		t.Errorf("%s imports %s, which is not beneath it", path, beneath)
	}
}

// layer is how far down a folder stands.
func layer(t *testing.T, folder string) int {
	t.Helper()
	if strings.HasPrefix(folder, "cmd/") {
		folder = "cmd"
	}
	i := slices.Index(layers, folder)
	if i < 0 {
		t.Fatalf("%s has no layer: give it one", folder)
	}
	return i
}
