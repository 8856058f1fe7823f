package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = folder + "/.." // paths in the files of a release begin there

// The image is built with the Go version of go.mod, is static, and has no root user. Its command
// names the configuration that compose.yaml mounts.
func TestImage(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if version == nil {
		t.Fatal("go.mod has no version of Go")
	}
	const config = "/etc/holdfast/holdfast.yaml"
	for _, want := range []string{
		"FROM golang:" + string(version[1]) + " AS build\n",
		"RUN CGO_ENABLED=0 go build -trimpath -o /out/scheduler ./cmd/scheduler\n",
		"FROM scratch AS base\n", "\nUSER 65532:65532\n", "\nSTOPSIGNAL SIGTERM\n",
		`CMD ["run", "-c", "` + config + `"]`,
	} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("Dockerfile lacks %q", want)
		}
	}
	if !strings.Contains(read(t, "compose.yaml"), config) {
		t.Errorf("compose.yaml does not mount %s", config)
	}
}

// A release has the files that goreleaser.yaml names, and the package installs the binary where
// the unit of systemd starts it.
func TestRelease(t *testing.T) {
	release := read(t, "goreleaser.yaml")
	var paths []string
	list := regexp.MustCompile(`(?m)^    files: \[(.+)\]$`).FindStringSubmatch(release)
	if list == nil {
		t.Fatal("goreleaser.yaml lists no files")
	}
	paths = append(paths, strings.Split(list[1], ", ")...)
	sources := regexp.MustCompile(`src: ([^,}]+)`).FindAllStringSubmatch(release, -1)
	for _, source := range sources {
		paths = append(paths, source[1])
	}
	main := regexp.MustCompile(`(?m)^    main: (\S+)$`).FindStringSubmatch(release)
	if len(sources) == 0 || main == nil {
		t.Fatalf("goreleaser.yaml has %d contents of the package, main %q", len(sources), main)
	}
	for _, path := range append(paths, main[1]+"/main.go") {
		found, err := filepath.Glob(filepath.Join(root, path))
		if err != nil || len(found) == 0 {
			t.Errorf("there is no file %s: %v", path, err)
		}
	}
	bin := regexp.MustCompile(`bindir: (\S+)`).FindStringSubmatch(release)
	if bin == nil || !strings.Contains(read(t, "systemd/holdfast.service"),
		"ExecStart="+bin[1]+"/scheduler ") {
		t.Errorf("the unit does not start the binary in %q", bin)
	}
}
