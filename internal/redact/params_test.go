package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParams(t *testing.T) {
	tests := []struct {
		name, params, want string
		values             []string
	}{
		{"nothing to hide", `{"statement":"SELECT token FROM t WHERE a < 5","n":12}`,
			`{"n":12,"statement":"SELECT token FROM t WHERE a < 5"}`, nil},
		{"a known value", `{"statement":"SELECT 'hunter22'","rows":10}`,
			`{"rows":10,"statement":"SELECT '[redacted]'"}`, []string{"hunter22"}},
		{"a short value", `{"args":["abc","abcd"]}`, `{"args":["[redacted]","abcd"]}`, []string{"abc"}},
		{"a number", `{"pin":4711,"port":5432}`, `{"pin":"[redacted]","port":5432}`, []string{"4711"}},
		{"a name", `{"hunter22":1}`, `{"[redacted]":1}`, []string{"hunter22"}},
		{"keys", `{"db_password":"hunter22","ApiKey":{"a":["b"]},"auth":"x","author":"ann","token":"","key":"orders"}`,
			`{"ApiKey":"[redacted]","auth":"[redacted]","author":"ann","db_password":"[redacted]","key":"orders","token":""}`, nil},
		{"headers", `{"headers":{"X-Shop":"hunter22","Accept":"text/csv"}}`,
			`{"headers":{"Accept":"text/csv","X-Shop":"[redacted]"}}`, nil},
		{"a URL", `{"url":"https://bob:hunter22@shop.example/a?region=eu&api_key=hunter22&key=hunter22#x"}`,
			`{"url":"https://[redacted]@shop.example/a?region=eu&api_key=[redacted]&key=[redacted]#x"}`, nil},
		{"a user in a URL", `{"url":"redis://hunter22@cache:6379/0"}`, `{"url":"redis://[redacted]@cache:6379/0"}`, nil},
		{"an @ in a password", `{"url":"https://bob:hun@ter22@shop.example/a"}`, `{"url":"https://[redacted]@shop.example/a"}`, nil},
		{"a statement", `{"statement":"ALTER ROLE bob PASSWORD 'hun''ter22'; SELECT dblink('host=db password=hunter22 user=bob')"}`,
			`{"statement":"ALTER ROLE bob PASSWORD '[redacted]'; SELECT dblink('host=db password=[redacted] user=bob')"}`, nil},
		{"statements", `{"statements":["SELECT set_config('app.token', 'hunter22', true)","SET secret = 'hunter22'"]}`,
			`{"statements":["SELECT set_config('app.token', '[redacted]', true)","SET secret = '[redacted]'"]}`, nil},
		{"a command", `{"command":["curl","--token","hunter22","--password=hunter22","-H","Authorization: Bearer hunter22","out.csv"]}`,
			`{"command":["curl","--token","[redacted]","--password=[redacted]","-H","Authorization: [redacted] [redacted]","out.csv"]}`, nil},
		{"an environment", `{"env":{"PGPASSWORD":"hunter22","LANG":"C"}}`, `{"env":{"LANG":"C","PGPASSWORD":"[redacted]"}}`, nil},
		{"JSON in a body", `{"body":"{\"api_key\": \"hunter22\", \"day\": 1}"}`,
			`{"body":"{\"api_key\": '[redacted]', \"day\": 1}"}`, nil},
		{"a private key", `{"body":"a -----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END RSA PRIVATE KEY----- b"}`,
			`{"body":"a [redacted] b"}`, nil},
		{"a cut private key", `{"body":"-----BEGIN PRIVATE KEY-----\nhunter22"}`, `{"body":"[redacted]"}`, nil},
		{"no JSON", `hunter22`, `"[redacted]"`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := string(Params(json.RawMessage(test.params), test.values))
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if strings.Contains(got, "hunter22") || !json.Valid([]byte(got)) {
				t.Errorf("a secret is left, or it is not JSON: %s", got)
			}
		})
	}
}
