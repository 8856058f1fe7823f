package app

import (
	"fmt"
	"runtime/debug"
)

// modulePath is the path of the module of Holdfast.
const modulePath = "github.com/holdfast-dev/holdfast"

// noVersion is the version of a module that was not built from a tag or a commit.
const noVersion = "(devel)"

// Version returns the version of the program: that of the module with its main package.
func Version() string {
	info, _ := debug.ReadBuildInfo() // nil without one
	if info == nil {
		return noVersion
	}
	return orNone(info.Main.Version)
}

// Build is the versions from which the binary was built.
type Build struct {
	Version string `json:"version"` // of Holdfast
	// Program is the path of the module of a program with Holdfast in it, else "".
	Program        string `json:"program,omitempty"`
	ProgramVersion string `json:"program_version,omitempty"`
}

// String returns a text such as "holdfast v1.2.3 in example.com/warehouse v0.4.0".
func (b Build) String() string {
	if b.Program == "" {
		return "holdfast " + b.Version
	}
	return fmt.Sprintf("holdfast %s in %s %s", b.Version, b.Program, b.ProgramVersion)
}

// BuildOf returns the versions in the build information of a binary. info is nil if the binary has
// none.
func BuildOf(info *debug.BuildInfo) Build {
	build := Build{Version: noVersion}
	if info == nil {
		return build
	}
	if info.Main.Path == modulePath {
		build.Version = orNone(info.Main.Version)
		return build
	}
	build.Program, build.ProgramVersion = info.Main.Path, orNone(info.Main.Version)
	for _, m := range info.Deps {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		build.Version = orNone(m.Version)
	}
	return build
}

// orNone returns the version, or noVersion for "".
func orNone(version string) string {
	if version == "" {
		return noVersion
	}
	return version
}
