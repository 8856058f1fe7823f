package configs

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/locking"
)

const warehouse = "databases: {warehouse: {url: 'postgres://h/w'}}\n"

// TestTablesOfADatabase checks that the same table in two databases is two locks.
func TestTablesOfADatabase(t *testing.T) {
	config, err := Parse("c.yaml", []byte(warehouse+`jobs:
  - {name: a, handler: sql, database: warehouse, tables: [orders], read_tables: ["dwh.*"]}
  - {name: b, handler: sql, tables: [orders], resources: [{name: api}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var keys [][]string
	for _, j := range config.Jobs {
		var own []string
		for _, r := range j.Requests {
			own = append(own, string(r.Mode)+" "+r.Resource.Key())
		}
		keys = append(keys, own)
	}
	if !slices.Equal(keys[0], []string{"shared table:warehouse:dwh",
		"exclusive table:warehouse:public/orders"}) ||
		!slices.Equal(keys[1], []string{"exclusive path:api", "exclusive table:public/orders"}) {
		t.Errorf("got the locks %q", keys)
	}
	if locking.Conflict(config.Jobs[0].Requests[1], config.Jobs[1].Requests[1]) {
		t.Error("the tables of two databases are one lock")
	}
	if shown := config.Jobs[0].Requests[1].Resource.String(); shown != "warehouse:public/orders" {
		t.Errorf("got %s, want the database before the table", shown)
	}
}

// TestDatabasesAreRead checks values, defaults, and that the URL is not shown.
func TestDatabasesAreRead(t *testing.T) {
	config, err := Parse("c.yaml", []byte("databases: {a: {url: 'postgres://u:hunter2@h/w'}, "+
		"b: {url: 'postgres://h/w', max_connections: 3, fence: none}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]JobDatabase{
		"a": {NewSecret("postgres://u:hunter2@h/w"), 10, FenceTable},
		"b": {NewSecret("postgres://h/w"), 3, NoFence}}
	for name, database := range want {
		if config.Databases[name] != database {
			t.Errorf("%s: got %+v, want %+v", name, config.Databases[name], database)
		}
	}
	text, err := json.Marshal(config)
	if err != nil || strings.Contains(string(text), "hunter2") ||
		!strings.Contains(string(text), `"databases":{"a":{"url":"[redacted]"`) {
		t.Errorf("got %s, %v", text, err)
	}
	built, err := Build(*config)
	if err != nil || built.Databases["b"] != want["b"] {
		t.Errorf("built: got %+v, %v", built, err)
	}
	changed := *config
	changed.Databases = nil
	if keys := config.Differences(&changed); !slices.Equal(keys, []string{"databases"}) {
		t.Errorf("got the changed keys %q", keys)
	}
}

// TestMistakesInDatabases checks what is refused.
func TestMistakesInDatabases(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"databases: [a]", "1:12: databases: found a list, expected a mapping of names to mappings"},
		{"databases: {warehouse: {}}",
			"1:24: databases.warehouse.url: found nothing, expected a postgres:// URL"},
		{"databases: {w: {url: 'mysql://hunter2'}}", "1:22: databases.w.url: found something else"},
		{"databases: {table: {url: 'postgres://h/w'}}",
			`1:13: databases.table: found the name "table", expected a lower-case letter`},
		{"databases: {w: {url: 'postgres://h/w', fence: row}}",
			`1:47: databases.w.fence: found "row", expected one of table, none`},
		{warehouse + job("database: wharehouse"),
			`3:39: jobs[0].database: unknown database "wharehouse"; did you mean "warehouse"?`},
		{warehouse + job(`tables: ['"warehouse:public".orders']`),
			"3:38: jobs[0].tables[0]: found "},
	} {
		_, err := Parse("c.yaml", []byte(test.text))
		var problems *Errors
		if !errors.As(err, &problems) {
			t.Errorf("%s: got %v, want mistakes", test.text, err)
			continue
		}
		if got := err.Error(); !strings.Contains(got, "c.yaml:"+test.want) ||
			strings.Contains(got, "hunter2") {
			t.Errorf("%s:\ngot  %s\nwant %s", test.text, got, test.want)
		}
	}
}
