package configs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/redact"
)

const (
	hash = "$2y$12$hunter2hunter2hunter2hunter2hunter2hunter2hunter2hunt"
	// hunted matches "hunter2" and its hexadecimal encodings.
	hunted = "68756e7465723268756e7465723268756e7465723268756e7465723268756e74"
	full   = `
database: {url: "postgres://app:hunter2@db/x"}
admin: {users: [{name: operator, password_hash: "` + hash + `"}], listen: "0.0.0.0:80",
  tokens: [{name: deploy, token_hash: "` + hunted + `"}], cookie_keys: [{key: hunter2hunter2hunter2hunter2hunter2}], hosts: [scheduler.example.com],
  trusted_proxy: {networks: [10.1.0.0/16, "fd00::1"], user_header: X-Forwarded-User, operators: [anna],
    secret_header: X-Proxy-Secret, secret: hunter2hunter2hunter2hunter2hunter2}}
locking: {memcached: {servers: ["cache:11211"], strict: true, username: holdfast, password: "${TOKEN}", tls: {server_name: cache}}}
jobs:
  - name: call
    schedule: {every: 90s}
    handler: http
    timeout: 1h
    params: {url: "https://vendor", headers: {Authorization: "Bearer ${TOKEN}"}, expect_status: "${STATUS}"}
`
)

func secretive(name string) (string, bool) {
	switch name {
	case "TOKEN":
		return "hunter2", true
	case "STATUS":
		return "204", true
	}
	return "", false
}

func TestSecretsAreNotShown(t *testing.T) {
	c := mustParse(t, full, WithEnv(secretive))
	if got := c.Database.URL.Reveal(); got != "postgres://app:hunter2@db/x" {
		t.Fatalf("the URL is %q", got)
	}
	if !strings.Contains(string(c.Jobs[0].Params.JSON()), `"Bearer hunter2"`) {
		t.Fatalf("the handler gets %s", c.Jobs[0].Params.JSON())
	}
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	type wrapped struct{ C Config }
	for form, text := range map[string]string{
		"String": c.String(), "json": string(marshalled), "job": c.Jobs[0].String(),
		"%v": fmt.Sprintf("%v", *c), "%+v": fmt.Sprintf("%+v", c.Database),
		"%#v": fmt.Sprintf("%#v", *c), "%q": fmt.Sprintf("%q", c.Admin.Users),
		"admin": fmt.Sprintf("%+v", c.Admin),
		"%s":    fmt.Sprintf("%s", c.Database.URL), "%x": fmt.Sprintf("%x", c.Database.URL),
		"%d":     fmt.Sprintf("%d", c.Jobs[0].Params),
		"nested": fmt.Sprintf("%+v", wrapped{*c}), "params": fmt.Sprintf("%#v", c.Jobs[0].Params),
	} {
		if strings.Contains(text, "hunter2") ||
			strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("%s shows a secret: %s", form, text)
		}
	}
	if !strings.Contains(c.String(), `"Bearer ${TOKEN}"`) ||
		!strings.Contains(c.String(), redact.Mark) {
		t.Errorf("got %s", c)
	}
}

// The JSON has the keys and the notation of the file.
func TestShownConfigRoundTrip(t *testing.T) {
	first := mustParse(t, full, WithEnv(secretive))
	shown := strings.NewReplacer(
		`"url":"[redacted]"`, `"url":"postgres://h/d"`, `"password":"[redacted]"`, `"password":"x"`,
		`"password_hash":"[redacted]"`, `"password_hash":"`+hash+`"`,
		`"token_hash":"[redacted]"`, `"token_hash":"`+hunted+`"`, `"key":"[redacted]"`,
		`"key":"hunter2hunter2hunter2hunter2hunter2"`, `"secret":"[redacted]"`,
		`"secret":"hunter2hunter2hunter2hunter2hunter2"`).Replace(first.String())
	second := mustParse(t, shown, WithEnv(secretive))
	if first.String() != second.String() {
		t.Errorf("got\n%s\nwant\n%s", second, first)
	}
}

func TestVariables(t *testing.T) {
	env := map[string]string{"N": "12", "EMPTY": "", "T": "true", "D": "45s"}
	c := mustParse(t, `
workers: ${N}
shutdown_grace: ${D}
replica: {name: "a${EMPTY}-${N}-${NONE:-b c}-${EMPTY:-d}-$${N}-$N-$$"}
jobs:
  - name: ${N}
    handler: command
    recover: ${T}
    params: {command: ["${N}", "$${N}", "${EMPTY}"], env: {}, dir: x}
  - name: plain
    handler: sql
    params:
      args:
        - ${N}
        - "${N}"
        - ${T}
        - ${NONE:-1.5}
        - ${EMPTY}
        - -${N}
`, WithEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok }))
	if c.Workers != 12 || c.ShutdownGrace.String() != "45s" {
		t.Errorf("got %s", c)
	}
	if want := "a-12-b c-d-${N}-$N-$$"; c.Replica.Name != want {
		t.Errorf("replica.name: got %q, want %q", c.Replica.Name, want)
	}
	if c.Jobs[0].Name != "12" || !c.Jobs[0].Recover {
		t.Errorf("got %s", c.Jobs[0])
	}
	if got, want := string(c.Jobs[0].Params.JSON()),
		`{"command":["12","${N}",""],"env":{},"dir":"x"}`; got != want {
		t.Errorf("params: got %s, want %s", got, want)
	}
	if got, want := string(c.Jobs[1].Params.JSON()),
		`{"args":[12,"12",true,1.5,"",-12]}`; got != want {
		t.Errorf("params: got %s, want %s", got, want)
	}
}

func TestSecretFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("url", "  postgres://app:hunter2@db/x\n")
	write("hash", hash+"\n")
	write("blank", " \n")
	write("other", "mysql://hunter2\n")
	write("large", strings.Repeat("hunter2", 10_000))
	write("c.yaml", "database: {url_file: url}\nadmin: {listen: \"0.0.0.0:80\", users: [{name: "+
		"a, password_hash_file: \""+filepath.ToSlash(filepath.Join(folder, "hash"))+"\"}]}\n")
	c, err := Load(filepath.Join(folder, "c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Database.URL.Reveal() != "postgres://app:hunter2@db/x" ||
		c.Admin.Users[0].PasswordHash.Reveal() != hash {
		t.Errorf("got %q and %q", c.Database.URL.Reveal(), c.Admin.Users[0].PasswordHash.Reveal())
	}
	for name, want := range map[string]string{
		"blank": "the file is empty", "large": "more than 64 KiB", "gone": "no such file",
		"other": "expected sqlite://", ".": "is a directory",
	} {
		_, err := Parse(filepath.Join(folder, "c.yaml"),
			[]byte("database:\n  url_file: "+name+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "c.yaml:2:13: database.url_file: ") {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the message shows the secret", name)
		}
	}
}

func TestPostgresURLs(t *testing.T) {
	for _, url := range []string{
		"postgres://h/d", "postgresql://u:p@h:5432/d?sslmode=disable", "postgres://a:1,b:2/d",
		"postgres:///d?host=/run/postgresql",
		"postgres://u:p%40@[::1]:5432/d", "postgres://h",
	} {
		mustParse(t, "database: {url: '"+url+"'}")
	}
	for _, url := range []string{"", "postgres://", "postgres:h", "POSTGRES://h",
		"postgres://h:x/d", "postgres://h h/d", "sqlite:x", "sqlite://x?mode=rw"} {
		if _, err := parse("database: {url: '" + url + "'}"); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
}

func TestAdminAddresses(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "127.9.9.9:80", "[::1]:8080", "localhost:8080",
		""} {
		mustParse(t, "admin: {listen: '"+listen+"'}")
	}
	for _, listen := range []string{":8080", "[::]:8080", "10.0.0.1:80", "example.org:80",
		"localhost.example.org:80", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", "a/b:1"} {
		if _, err := parse("admin: {listen: '" + listen + "'}"); err == nil {
			t.Errorf("%q was taken", listen)
		}
	}
	mustParse(t, "admin: {listen: ':8080', users: [{name: a, password_hash: '"+hash+"'}]}")
}
