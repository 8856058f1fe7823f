package sqltables

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for sql, want := range map[string]string{
		"INSERT INTO sales_rollup SELECT day, sum(x) FROM sales s JOIN vendors v ON v.id = s.v":                           "!sales_rollup sales vendors",
		"insert into Public.Totals (a, b) values (1, 2) on conflict (a) do update set b = 1":                              "!Public.Totals",
		"UPDATE ONLY t SET x = u.x FROM u WHERE u.id = t.id":                                                              "!t u",
		"DELETE FROM a USING b, c AS d WHERE true RETURNING *":                                                            "!a b c",
		"TRUNCATE TABLE a, b RESTART IDENTITY":                                                                            "!a !b",
		"MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET x = 1":                                          "!t s",
		"SELECT 1 FROM a, b x, (SELECT * FROM c) y, generate_series(1, 2) g FOR UPDATE":                                   "a b c",
		"WITH x AS (SELECT * FROM a), y (n) AS MATERIALIZED (DELETE FROM b RETURNING 1) INSERT INTO c SELECT * FROM x, y": "a !b !c",
		"SELECT extract(day FROM at), trim(both 'x' from n) FROM \"My Sales\".\"Orders\" WHERE a IS DISTINCT FROM b":      "\"My Sales\".\"Orders\"",
		"CREATE TEMP TABLE IF NOT EXISTS tmp AS SELECT * FROM a; INSERT INTO b SELECT * FROM tmp":                         "a !b",
		"CREATE TABLE IF NOT EXISTS n (id int); ALTER TABLE IF EXISTS m ADD x int; DROP TABLE d":                          "!n !m !d",
		"REFRESH MATERIALIZED VIEW CONCURRENTLY mv":                                                                       "!mv",
		"COPY t (a, b) FROM STDIN; COPY u TO STDOUT":                                                                      "!t u",
		"-- FROM a\nSELECT 'FROM b' /* FROM c */, $$ FROM d $$ FROM e":                                                    "e",
		"SELECT * FROM pg_class, information_schema.tables, a":                                                            "a",
		"SELECT @a, x FROM a.b.c WHERE id IN (SELECT id FROM d)":                                                          "a.b.c d",
		"SELECT pg_notify('x', 'y')":                                                                                      "",
		"":                                                                                                                "", "FROM": "", "INSERT INTO": "", "UPDATE": "", "WITH": "", "((((": "", "AS (": "",
	} {
		var got []string
		for _, m := range Find(sql) {
			if m.Write {
				m.Name = "!" + m.Name
			}
			got = append(got, m.Name)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", sql, text, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("WITH x (a) AS (SELECT 1) INSERT INTO t SELECT * FROM x, \"y\".z; COPY t (a FROM")
	f.Fuzz(func(t *testing.T, sql string) {
		for _, m := range Find(sql) {
			if m.Name == "" {
				t.Errorf("%q: a table without a name", sql)
			}
		}
	})
}
