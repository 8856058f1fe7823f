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

// layers are the packages from top to bottom. A package may import only packages below it, and
// package configs, which has rules of its own.
var layers = []string{"cmd", "cli", "", "internal/cli", "internal/remote", "internal/doctor",
	"internal/app",
	"admin",
	"admin/internal/pages", "admin/internal/access", "admin/internal/oidc", "admin/page",
	"admin/status", "admin/internal/cluster",
	"admin/internal/locks", "admin/internal/grid", "admin/internal/family", "admin/internal/charts",
	"admin/internal/param", "admin/internal/mount", "admin/internal/records",
	"admin/internal/words", "admin/internal/markup", "admin/password",
	"internal/crontab", "internal/sqltables", "internal/metrics", "otlp", "internal/tracing",
	"internal/engine", "jobs/operations", "jobs/permission", "jobs/explain",
	"jobs/handlers", "jobs/postgres", "jobs/sqlite", "jobs/webhook", "internal/rules",
	"jobs/fence", "jobs/storage", "jobs",
	"jobs/schedule", "jobs/reasons",
	"locking/memcached", "locking/memory", "locking", "retry", "internal/suggest", "internal/batch",
	"internal/breaker", "internal/session", "internal/attempt", "internal/output",
	"internal/egress", "internal/redact",
	"internal/namedargs", "internal/ansi", "internal/runes", "internal/durations", "internal/plural",
	"internal/proxyheader", "internal/systemd", "internal/sleep", "internal/parallel",
	"internal/zone"}

// onlyIn are the folders that may import a package. Nil: only tests may.
var onlyIn = map[string][]string{
	// pgx.Tx
	"github.com/jackc/pgx/v5":           {"jobs/postgres", "jobs/fence", "internal/app", ""},
	"github.com/go-sql-driver/mysql":    nil,
	"github.com/bradfitz/gomemcache":    {"locking/memcached"},
	"github.com/robfig/cron/v3":         {"jobs/schedule"},
	"modernc.org/sqlite":                {"jobs/sqlite"},
	"github.com/spf13/cobra":            {"internal/cli"},
	"github.com/schollz/progressbar/v3": {"internal/cli"},
	"github.com/goccy/go-yaml":          {"configs", "internal/cli"},
	"github.com/chromedp/chromedp":      nil,
	"github.com/google/go-cmp":          nil,
	"pgregory.net/rapid":                nil,
	"github.com/anishathalye/porcupine": nil,
	module + "/otlp":                    {"internal/cli"},
	"testing":                           nil,
	"github.com/rs/zerolog/log":         nil, // the global logger
	"github.com/jackc/pgx/v5/stdlib":    nil,
	"github.com/holdfast-dev/holdfast":  {"cli"},
	module + "/cli":                     {"cmd/scheduler"},
	module + "/internal/cli":            {"cli"},
	module + "/holdfasttest":            nil,
	module + "/configs": {"", "internal/app", "internal/cli", "internal/doctor", "admin",
		"admin/page"},
	module + "/admin":                         {"internal/cli", "internal/remote"},
	module + "/jobs/handlers":                 {"internal/app"},
	module + "/jobs/webhook":                  {"internal/app"},
	module + "/jobs/sqlite":                   {"internal/cli", "internal/doctor"},
	module + "/locking/memory":                {"internal/app"},
	module + "/admin/password":                {"internal/cli", "admin/internal/access", "configs"},
	"golang.org/x/crypto/argon2":              {"admin/password"},
	"golang.org/x/crypto/bcrypt":              {"admin/password"},
	"golang.org/x/net/idna":                   {"internal/egress"},
	"github.com/gofrs/flock":                  {"jobs/sqlite"},
	"github.com/jackc/pgx/v5/pgxpool":         {"jobs/postgres", "jobs/fence", "internal/app", ""},
	"github.com/jackc/pgx/v5/pgconn":          {"jobs/postgres"},
	"github.com/bradfitz/gomemcache/memcache": {"locking/memcached"},
}

// prefixOnlyIn are the folders that may import packages whose path has a prefix. All matching
// prefixes must allow the import. Package jobs uses only the interfaces of OpenTelemetry, and no
// metrics.
var prefixOnlyIn = map[string][]string{
	"github.com/prometheus/":             {"internal/metrics", "internal/app", ""},
	"github.com/coreos/go-oidc/":         {"admin/internal/oidc"},
	"golang.org/x/oauth2":                {"admin/internal/oidc"},
	"go.opentelemetry.io/":               {"internal/engine", "internal/tracing", "internal/app", "", "otlp"},
	"go.opentelemetry.io/otel/sdk/":      {"otlp"},
	"go.opentelemetry.io/otel/exporters": {"otlp"},
	"go.opentelemetry.io/proto":          nil, // tests only
	"google.golang.org/":                 nil,
	module + "/internal/test/":           nil,
}

// TestImportsPointOneWay checks all imports of the module against the rules above.
func TestImportsPointOneWay(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && path != "."
		if entry.IsDir() && (hidden ||
			slices.Contains([]string{"examples", "holdfasttest", "internal/test"}, path)) {
			return filepath.SkipDir // they may import everything, and only tests import them
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
		t.Errorf("got %d imports, want at least 300", seen)
	}
}

// checkImport checks one import of a file in folder.
func checkImport(t *testing.T, path, folder, imported string) {
	t.Helper()
	if allowed, limited := onlyIn[imported]; limited && !slices.Contains(allowed, folder) {
		t.Errorf("%s imports %s, which only %q may import", path, imported, allowed)
	}
	for prefix, allowed := range prefixOnlyIn {
		if strings.HasPrefix(imported, prefix) && !slices.Contains(allowed, folder) {
			t.Errorf("%s imports %s, which only %q may import", path, imported, allowed)
		}
	}
	below, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		return
	}
	if folder == "configs" {
		if !slices.Contains([]string{"admin/password", "jobs/schedule", "locking", "retry",
			"internal/suggest", "internal/zone", "internal/batch", "internal/session",
			"internal/egress", "internal/redact", "internal/runes", "internal/durations",
			"internal/plural", "internal/proxyheader", "internal/parallel",
			"jobs/permission"}, below) {
			t.Errorf("%s imports %s: configs may import only packages that define its values", path,
				below)
		}
		return
	}
	if below != "configs" && layer(t, below) <= layer(t, folder) {
		t.Errorf("%s imports %s, which is not below it", path, below)
	}
}

// layer returns the index of a folder in layers.
func layer(t *testing.T, folder string) int {
	t.Helper()
	if strings.HasPrefix(folder, "cmd/") {
		folder = "cmd"
	}
	i := slices.Index(layers, folder)
	if i < 0 {
		t.Fatalf("folder %q: not found in layers, add it", folder)
	}
	return i
}
