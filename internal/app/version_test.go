package app

import (
	"runtime/debug"
	"testing"
)

func TestBuildOf(t *testing.T) {
	holdfast := debug.Module{Path: modulePath, Version: "v1.2.3"}
	warehouse := debug.Module{Path: "example.com/warehouse", Version: "v0.4.0"}
	replaced := debug.Module{Path: modulePath, Version: "v1.2.3",
		Replace: &debug.Module{Path: "../holdfast"}}
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"no build information": {nil, "holdfast (devel)"},
		"scheduler":            {&debug.BuildInfo{Main: holdfast}, "holdfast v1.2.3"},
		"scheduler without a version": {&debug.BuildInfo{Main: debug.Module{Path: modulePath}},
			"holdfast (devel)"},
		"program": {&debug.BuildInfo{Main: warehouse, Deps: []*debug.Module{&holdfast}},
			"holdfast v1.2.3 in example.com/warehouse v0.4.0"},
		"program with a local copy": {&debug.BuildInfo{Main: warehouse,
			Deps: []*debug.Module{&replaced}},
			"holdfast (devel) in example.com/warehouse v0.4.0"},
	} {
		if got := BuildOf(test.info).String(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
