package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

func TestForms(t *testing.T) {
	const secret = "hun\"ter2 & <pass/wörd>+1"
	mask := New([]string{secret})
	for name, text := range map[string]string{
		"plain": secret, "twice": secret + secret, "go": fmt.Sprintf("%q", secret),
		"ascii": fmt.Sprintf("%+q", secret), "query": url.QueryEscape(secret),
		"path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
		"HEX":             strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 of URLs":  base64.URLEncoding.EncodeToString([]byte(secret)),
		"basic":           "Basic " + base64.StdEncoding.EncodeToString([]byte("anna:"+secret)),
		"basic, 1 before": base64.StdEncoding.EncodeToString([]byte("x" + secret + "y")),
		"basic, 2 before": base64.StdEncoding.EncodeToString([]byte("xy" + secret + "yz")),
	} {
		masked := mask.Text("before " + text + " after")
		if !strings.Contains(masked, Mark) || !strings.HasPrefix(masked, "before ") ||
			!strings.HasSuffix(masked, " after") {
			t.Errorf("%s: found %q", name, masked)
		}
		for _, part := range []string{"ter2", "pass", hex.EncodeToString([]byte("ter2")), "dGVyMi",
			"pass%2F"} {
			if strings.Contains(masked, part) {
				t.Errorf("%s: found %q, which shows %q", name, masked, part)
			}
		}
	}
}

func TestFormsInJSON(t *testing.T) {
	const secret = "a<b>&\"c\"/\x7f\u2028 ö€😀"
	encoded, err := json.Marshal(map[string]string{"key": secret})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Go":                          string(encoded),
		"Go, without escapes of HTML": `{"key":"a<b>&\"c\"/` + "\x7f" + `\u2028 ö€😀"}`,
		"json.dumps of Python":        `{"key":"a<b>&\"c\"/\u007f\u2028 \u00f6\u20ac\ud83d\ude00"}`,
	} {
		if got := New([]string{secret}).Text(text); got != `{"key":"`+Mark+`"}` {
			t.Errorf("%s: found %s", name, got)
		}
	}
}

func TestShortValues(t *testing.T) {
	mask := New([]string{"1", "prod", ""})
	if got := mask.Text(
		`exit status 1 in production, found "prod"`); got != `exit status 1 in production, found "[redacted]"` {
		t.Errorf("found %s", got)
	}
	if New(nil) != nil || New([]string{""}) != nil {
		t.Error("mask without values: got a mask, want nil")
	}
	var none *Mask
	if none.Text("a") != "a" || none.Error(io.EOF) != io.EOF ||
		none.Writer(io.Discard) != io.Discard {
		t.Error("text behind a nil mask: got another text, want the same")
	}
}

// TestURLs checks that only the scheme and the host of a URL are shown.
func TestURLs(t *testing.T) {
	const hook = "https://hooks.example.com/services/T0001/B0002/abcdefghijklmnop"
	for _, test := range []struct{ value, text, want string }{
		{hook, "POST " + hook + ": found 404", "POST https://hooks.example.com/[redacted]: found 404"},
		{hook, "dial hooks.example.com:443", "dial hooks.example.com:443"},
		{hook, `"/services/T0001/B0002/abcdefghijklmnop" not found`, `"/[redacted]" not found`},
		{hook, "no hook abcdefghijklmnop", "no hook [redacted]"},
		{hook, "the services of T0001", "the services of T0001"},
		{hook + "?key=hunter2", "GET " + hook + "?key=hunter2", "GET https://hooks.example.com/[redacted]"},
		{hook + "?key=hunter2", "the key hunter2", "the key [redacted]"},
		{hook + "?key=hunter2", "GET " + hook, "GET https://hooks.example.com/[redacted]"},
		{"https://a.example.com/health", "GET https://a.example.com/health: the health is bad", "GET https://a.example.com/[redacted]: the health is bad"},
		{"https://a.example.com/", "GET https://a.example.com/x", "GET https://a.example.com/x"},
		{"postgres://u:hunter2@db/x", "connect to postgres://u:hunter2@db/x", "connect to postgres://db/[redacted]"},
		{"postgres://u:hunter2@db/x", "password hunter2 of u:hunter2@db", "password [redacted] of [redacted]@db"},
		// one in 4,096 random values in base64 begins so
		{"//8AbC+dEf==", "login with //8AbC+dEf==: found 401", "login with [redacted]: found 401"},
		{"//u:hunter2@db/x", "connect to //u:hunter2@db/x", "connect to [redacted]"},
		{"//u:hunter2@db/x", "password hunter2 of u:hunter2@db", "password [redacted] of [redacted]@db"},
		{"//token@db/services/abcdefghijklmnop", "token@db, /services/abcdefghijklmnop", "[redacted]@db, /[redacted]"},
		{hook, base64.RawStdEncoding.EncodeToString([]byte(hook)), Mark},
	} {
		if got := New([]string{test.value}).Text(test.text); got != test.want {
			t.Errorf("%s in %s: found %s, expected %s", test.value, test.text, got, test.want)
		}
	}
}

func TestErrorsAndWriters(t *testing.T) {
	mask := New([]string{"hunter2", "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"})
	cause := fmt.Errorf("login with hunter2: %w", io.EOF)
	if err := mask.Error(cause); err.Error() != "login with [redacted]: EOF" ||
		!errors.Is(err, io.EOF) {
		t.Errorf("found %v", err)
	}
	if mask.Error(io.EOF) != io.EOF {
		t.Error("error without a value: got another error, want the same")
	}
	var out bytes.Buffer
	n, err := mask.Writer(&out).Write([]byte("a hunter2 b"))
	if n != len("a hunter2 b") || err != nil || out.String() != "a [redacted] b" {
		t.Errorf("found %d, %v, %q", n, err, out.String())
	}
	if got := mask.Text("line MIIEvQIBADANBg."); got != "line [redacted]." {
		t.Errorf("found %s", got)
	}
}

// TestCost checks that neither many values nor texts that nearly match take long, because masks are
// applied to all output. On a slow machine they may take longer, but not three times as long as
// half of the text.
func TestCost(t *testing.T) {
	var values []string
	for i := range 100 {
		values = append(values, fmt.Sprintf("secret-%d-%s", i, strings.Repeat("a", 100)))
	}
	mask := New(values)
	text := strings.Repeat("secret-1-"+strings.Repeat("a", 99)+"\n", 64<<10/110)
	speedtest.WithinOrLike(t, "64 KiB", 100*time.Millisecond,
		func() { mask.Text(text[:len(text)/2]) }, func() { mask.Text(text) })
	masks := func(size int) func() {
		long := New([]string{strings.Repeat("ab", size/2)})
		text := strings.Repeat("ab", size/2-1)
		return func() { long.Text(text) }
	}
	speedtest.WithinOrLike(t, "a long value", 100*time.Millisecond, masks(32<<10), masks(64<<10))
}
