package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// migrate --restored raises the tokens of either store, each time again.
func TestMigrateRestored(t *testing.T) {
	urls := map[string]string{"SQLite": "sqlite://" + filepath.Join(t.TempDir(), "test.db")}
	if server != nil {
		urls["PostgreSQL"] = server.Database(t)
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "holdfast.yaml")
			if err := os.WriteFile(config, []byte("database: {url: '"+url+"'}\n"),
				0o600); err != nil {
				t.Fatal(err)
			}
			if text := commandOutput(t, "migrate", "-c", config); strings.Contains(text, "tokens") {
				t.Errorf("without the flag: got %q", text)
			}
			const want = "fencing tokens raised from 0 to 100000000000\n"
			if text := commandOutput(t, "migrate", "--restored", "-c",
				config); !strings.HasSuffix(text, want) {
				t.Errorf("got %q, want %q at its end", text, want)
			}
			var again struct {
				Cluster string
				Tokens  struct{ From, To int64 }
			}
			text := commandOutput(t, "migrate", "--restored", "-o", "json", "-c", config)
			if err := json.Unmarshal([]byte(text), &again); err != nil {
				t.Fatal(err)
			}
			if again.Cluster == "" || again.Tokens.From != 100_000_000_000 ||
				again.Tokens.To != 200_000_000_000 {
				t.Errorf("got %+v", again)
			}
			if text := commandOutput(t, "audit", "-c", config); strings.Count(text,
				"raise_tokens") != 2 {
				t.Errorf("audit log: got %s, want both commands", text)
			}
		})
	}
}
