package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	hashing "github.com/holdfast-dev/holdfast/admin/password"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
)

// The replicas of compose.yaml accept deploy/holdfast.yaml with the secrets of compose.yaml, and
// each secret is a file that its head says how to make.
func TestConfigurationOfCompose(t *testing.T) {
	compose := read(t, "compose.yaml")
	secrets := t.TempDir()
	hash, err := hashing.New("correct horse battery staple")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"database-url":  "postgres://holdfast:secret@postgres:5432/holdfast",
		"cookie-key":    strings.Repeat("0123456789abcdef", 4),
		"operator":      hash,
		"metrics-token": accesstest.Sum(token),
	} {
		write(t, filepath.Join(secrets, name), text)
		if !strings.Contains(compose, "  "+name+": {file: ./secrets/"+name+"}\n") {
			t.Errorf("compose.yaml has no secret %s", name)
		}
	}
	variables := map[string]string{"SECRETS": secrets, "REPLICA_NAME": "replica-1",
		"PAGE_HOST": "localhost"}
	handlers, err := app.Options{}.CheckParams()
	if err != nil {
		t.Fatal(err)
	}
	config, err := configs.Load(filepath.Join(folder, "holdfast.yaml"), handlers,
		configs.WithEnv(func(name string) (string, bool) {
			value, set := variables[name]
			return value, set
		}))
	if err != nil {
		t.Fatal(err)
	}
	if config.Replica.Name != "replica-1" || len(config.Jobs) != 1 {
		t.Errorf("got %s", config)
	}
	for _, mount := range regexp.MustCompile(`"\./([\w.-]+):`).FindAllStringSubmatch(compose, -1) {
		if _, err := os.Stat(filepath.Join(folder, mount[1])); err != nil {
			t.Errorf("compose.yaml mounts a file that does not exist: %v", err)
		}
	}
}
