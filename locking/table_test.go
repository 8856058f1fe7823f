package locking

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
)

func TestTable(t *testing.T) {
	tests := []struct {
		name, want string // want is the path; empty: refused
	}{
		{"orders", "public/orders"},
		{"Orders", "public/orders"},
		{"public.orders", "public/orders"},
		{"PUBLIC.Orders", "public/orders"},
		{`"orders"`, "public/orders"},
		{`"Orders"`, "public/Orders"},
		{`"public"."Orders"`, "public/Orders"},
		{`sales."Orders"`, "sales/Orders"},
		{`"with space"`, "public/with space"},
		{`"a.b"`, "public/a.b"},
		{`"a""b"`, `public/a"b`},
		{"sales.*", "sales"},
		{`"Sales".*`, "Sales"},
		{"größe", "public/größe"},
		{"GRÖSSE", "public/grÖsse"},
		{`sales."*"`, "sales/*"},
		{strings.Repeat("n", 70), "public/" + strings.Repeat("n", 63)},
		{strings.Repeat("n", 62) + "ü", "public/" + strings.Repeat("n", 62)},
		{`"` + strings.Repeat("N", 70) + `"`, "public/" + strings.Repeat("N", 63)},
		{"", ""},
		{".", ""},
		{".orders", ""},
		{"orders.", ""},
		{"a.b.c", ""},
		{`"`, ""},
		{`""`, ""},
		{`"a`, ""},
		{`"a"b`, ""},
		{`a"b"`, ""},
		{"with space", ""},
		{"a/b", ""},
		{`"a/b"`, ""},
		{"a\nb", ""},
		{"\"a\x00\"", ""},
		{"\xff", ""},
		{"..", ""},
		{`".."`, ""},
		{"*", ""},
		{"*.*", ""},
		{"*.orders", ""},
		{"sales.ord*", ""},
	}
	for _, test := range tests {
		got, err := Table(test.name, "public")
		if test.want == "" {
			if !errors.Is(err, ErrBadName) {
				t.Errorf("%.30q gave %v, %v; want it to be refused", test.name, got, err)
			}
			continue
		}
		if err != nil || got.Path() != test.want || got.Kind() != KindTable {
			t.Errorf("%.30q gave %v, %v; want %q", test.name, got, err, test.want)
		}
	}
}

// quote writes an identifier so that it keeps its case.
func quote(part string) string { return `"` + strings.ReplaceAll(part, `"`, `""`) + `"` }

func TestSpellingsOfATableAreOneLock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := rapid.StringMatching(`[a-z_][a-z0-9_]{0,10}`).Draw(t, "schema")
		table := rapid.StringMatching(`[a-z_][a-z0-9_]{0,10}`).Draw(t, "table")
		want := resourceOf(KindTable, schema+"/"+table)
		for _, spelling := range []string{
			table, strings.ToUpper(table), quote(table),
			schema + "." + table, strings.ToUpper(schema) + "." + table,
			quote(schema) + "." + quote(table),
		} {
			if got, err := Table(spelling, schema); err != nil || got != want {
				t.Fatalf("%s gave %v, %v; want %v", spelling, got, err, want)
			}
		}
		all, err := Table(schema+".*", "other")
		if err != nil || !all.Related(want) {
			t.Fatalf("%v does not cover %v: %v", all, want, err)
		}
	})
}

func FuzzTable(f *testing.F) {
	for _, seed := range []string{"orders", `"Or""ders"`, "a.b", "a.*", `"`, `"a"b`, "..", "\xff",
		`"a/b"`, "İ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		speedtest.Within10ms(t, name, func() { _, _ = Table(name, "public") })
		r, err := Table(name, "public")
		if err != nil {
			if !errors.Is(err, ErrBadName) || !r.IsZero() {
				t.Fatalf("%q gave %v, %v", name, r, err)
			}
			return
		}
		schema, table, both := strings.Cut(r.Path(), "/")
		spelling := quote(schema) + ".*"
		if both {
			spelling = quote(schema) + "." + quote(table)
		}
		if again, err := Table(spelling, "other"); err != nil || again != r {
			t.Fatalf("%q became %s and then %v, %v", name, spelling, again, err)
		}
	})
}

// TestTableIn checks that a database is a part of the name, and that the name can be read back.
func TestTableIn(t *testing.T) {
	table, err := TableIn("warehouse", "Orders", "public")
	if err != nil || table.Key() != "table:warehouse:public/orders" {
		t.Fatalf("got %s, %v", table.Key(), err)
	}
	for _, text := range []string{table.String(), table.Key()} {
		if read, err := ParseDisplay(text); err != nil || read != table {
			t.Errorf("%s: got %v, %v, want the same table", text, read, err)
		}
	}
	schema, err := TableIn("warehouse", "public.*", "")
	if err != nil || !schema.Related(table) {
		t.Errorf("got %v, %v, want a schema that covers the table", schema, err)
	}
	other, err := Table("public.orders", "")
	if err != nil || other.Related(table) {
		t.Errorf("got %v, %v, want an unrelated table of the store", other, err)
	}
}
