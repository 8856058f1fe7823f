package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/configs"
)

// TestExaminePrograms checks programs that are in PATH, absolute, and relative to a directory.
func TestExaminePrograms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	file := filepath.Join(dir, "text")
	for _, c := range []struct{ jobs, want string }{
		{"", ""},
		{"a tool", "ok found the programs of 1 command job"},
		{"a ./tool " + dir + "|b " + dir + "/tool", "ok found the programs of 2 command jobs"},
		{"a lost|b tool|c lost", "warning lost: executable file not found in $PATH; used by a, c"},
		{"a ./tool", "warning ./tool: stat ./tool: no such file or directory; used by a"},
		{"a " + file, "warning " + file + ": permission denied; used by a"},
		{"a tool /none/at/all|b tool " + file, "warning stat /none/at/all: no such file or " +
			"directory; used by a\nwarning " + file + " is not a directory; used by b"},
	} {
		text := "database: {url: 'sqlite://h.db'}\njobs:\n" +
			"  - {name: quiet, handler: sql, params: {statement: SELECT 1}}\n"
		for _, job := range strings.Split(c.jobs, "|") {
			if words := strings.Fields(job); len(words) > 0 {
				words = append(words, "")
				text += fmt.Sprintf("  - {name: %s, handler: command, "+
					"params: {command: [%q], dir: %q}}\n", words[0], words[1], words[2])
			}
		}
		path := filepath.Join(t.TempDir(), "holdfast.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := configs.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		e := &examiner{config: config}
		e.examinePrograms()
		var got []string
		for _, check := range e.checks {
			got = append(got, string(check.Result)+" "+check.Detail)
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%q: got %q, want %q", c.jobs, got, c.want)
		}
	}
}
