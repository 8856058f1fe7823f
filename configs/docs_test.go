package configs

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Every example in the tables of docs/schedules.md has the scheduled times of its table row. Every
// configuration in it is valid.
func TestDocumentedSchedules(t *testing.T) {
	data, err := os.ReadFile("../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	configurations := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").
		FindAllStringSubmatch(text, -1)
	for _, block := range configurations {
		if _, err := parse(block[1]); err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
	}
	examples := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([-0-9:, ]*)\\|$").
		FindAllStringSubmatch(text, -1)
	for _, example := range examples {
		asDocumented(t, example[1], strings.TrimSpace(example[2]))
	}
	if len(configurations) < 2 || len(examples) < 30 {
		t.Errorf("got %d configurations and %d examples", len(configurations), len(examples))
	}
}

// The configuration in docs/policies.md is valid and has the defaults where a key has one.
func TestDocumentedPolicies(t *testing.T) {
	data, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").
		FindAllStringSubmatch(string(data), -1)
	if len(blocks) != 2 {
		t.Fatalf("got %d configurations", len(blocks))
	}
	if _, err := parse(blocks[1][1]); err != nil {
		t.Errorf("configuration of reservations: %v", err)
	}
	c, err := parse(blocks[0][1])
	if err != nil {
		t.Fatal(err)
	}
	var defaults Job
	config := Defaults()
	defaults.start(&config)
	defaults.Misfire.MaxAge = 6 * time.Hour
	if c.Jobs[0].Misfire != defaults.Misfire {
		t.Errorf("misfire is %+v, by default %+v", c.Jobs[0].Misfire, defaults.Misfire)
	}
}

func TestDocumentedHooks(t *testing.T) {
	data, err := os.ReadFile("../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	configurations := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").
		FindAllStringSubmatch(string(data), -1)
	inline := regexp.MustCompile(`(\w+)_file: secrets/[a-z-]+`) // the files do not exist here
	for _, block := range configurations {
		text := inline.ReplaceAllStringFunc(block[1], func(found string) string {
			key, _, _ := strings.Cut(found, "_file")
			return key + ": https://hooks.example.com/and/a/long/secret"
		})
		if _, err := parse(text, anyHandler); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	if len(configurations) != 3 {
		t.Errorf("got %d configurations", len(configurations))
	}
}

func TestDocumentedConfigurations(t *testing.T) {
	for _, path := range []string{
		"../README.md", "../docs/getting-started.md", "../docs/configuration.md",
		"../docs/jobs-in-go.md",
		"../docs/faq.md", "../docs/coming-from-quartz.md", "../docs/coming-from-cron.md",
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").
			FindAllStringSubmatch(string(data), -1)
		if len(blocks) == 0 {
			t.Errorf("%s: got no configuration", path)
		}
		for _, block := range blocks {
			if _, err := parse(block[1], anyHandler, WithEnv(noEnv)); err != nil {
				t.Errorf("%s: %v in\n%s", path, err, block[1])
			}
		}
	}
}

func asDocumented(t *testing.T, written, want string) {
	t.Helper()
	if !strings.HasPrefix(written, "{") {
		written = `"` + written + `"`
	}
	c, err := parse("timezone: Europe/Berlin\njobs: [{name: extract, handler: sql, schedule: " +
		"\"@daily\"}, {name: load, handler: sql, schedule: \"@daily\"}, {name: a, handler: sql, " +
		"schedule: " + written + "}]")
	if err != nil {
		t.Errorf("%s: %v", written, err)
		return
	}
	s := c.Jobs[2].Schedule
	var got []string
	for _, scheduledAt := range s.Upcoming(time.Date(2026, 1, 1, 0, 0, 0, 0, s.Zone()),
		strings.Count(want, ",")+1) {
		got = append(got, strings.TrimSuffix(scheduledAt.In(s.Zone()).Format("01-02 15:04:05"),
			":00"))
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("%s: got scheduled times %s, documented are %s", written, strings.Join(got, ", "), want)
	}
}
