package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	const passes = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"-test.shuffle 7\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"a log\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":3}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":3}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t3s\n"}
{"Action":"pass","Package":"p","Elapsed":3}
`
	for _, tt := range []struct{ name, events, want string }{
		{"a package that passes has one line", passes, "ok  \tp\t3s\n"},
		{"a test that fails is printed in full, others are not",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"a log\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"another log\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL: TestB\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Output":"-test.shuffle 7\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}
{"Action":"fail","Package":"p","Elapsed":1}
`, "another log\n--- FAIL: TestB\n-test.shuffle 7\nFAIL\tp\t1s\n"},
		{"a test that did not end is printed too",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"goes on\n"}
{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p","Elapsed":1}
`, "goes on\npanic: test timed out\n"},
		{"errors of the compiler",
			`{"ImportPath":"p","Action":"build-output","Output":"p.go:1:1: wrong\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}
`, "p.go:1:1: wrong\nFAIL\tp [build failed]\n"},
		{"no event", "no event\n", "no event\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if err := newReport(&out).read(strings.NewReader(tt.events)); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", &out, tt.want)
			}
		})
	}
}

func TestSummaryHasTheSlowestTests(t *testing.T) {
	var out, events strings.Builder
	for i := range 25 {
		fmt.Fprintf(&events, `{"Action":"pass","Package":"p","Test":"Test%02d","Elapsed":%d}`+"\n",
			i, i)
		fmt.Fprintf(&events,
			`{"Action":"skip","Package":"p","Test":"Test%02d/sub","Elapsed":100}`+"\n", i)
	}
	r := newReport(&out)
	if err := r.read(strings.NewReader(events.String())); err != nil {
		t.Fatal(err)
	}
	r.summary(90 * time.Second)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 23 || lines[1] != "   24.00s  p  Test24" ||
		lines[20] != "    5.00s  p  Test05" ||
		lines[22] != "25 tests passed, 0 failed, 25 skipped; 1m30s in all" {
		t.Errorf("got\n%s", &out)
	}
}

func TestOnlyFailuresOfTheRaceDetectorAreRepeated(t *testing.T) {
	const (
		crash = `{"Action":"output","Package":"p","Test":"TestA","Output":"ThreadSanitizer: CHECK failed: x\n"}
{"Action":"fail","Package":"p","Elapsed":1}
`
		crashAfterFailure = `{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}
` + crash
		other = `{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}
{"Action":"fail","Package":"q","Elapsed":0}
`
		race = `{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"fail","Package":"p","Elapsed":1}
`
	)
	for events, want := range map[string]string{
		crash: "-race -timeout 10m p", crashAfterFailure: "", crash + other: "", race: "",
		other: "",
	} {
		r := newReport(io.Discard)
		if err := r.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		again := r.again([]string{"-race", "-timeout", "10m", "./...", "./p"})
		if got := strings.Join(again, " "); got != want {
			t.Errorf("after\n%s\ngot %q, want %q", events, got, want)
		}
	}
}
