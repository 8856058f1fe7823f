package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/locking"
)

func TestResourcesInNormalForm(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"two spellings of one lock", job(`tables: [Orders, public.orders, '"orders"']`),
			[]string{"exclusive no slots table:public/orders"}},
		{"quotes keep the case", job(`tables: ['"Orders"']`),
			[]string{"exclusive no slots table:public/Orders"}},
		{"default schema", "default_schema: Sales\n" + job("tables: [orders]"),
			[]string{"exclusive no slots table:sales/orders"}},
		{"a whole schema", job("tables: [sales.*]"), []string{"exclusive no slots table:sales"}},
		{"sorted, each kind",
			job(
				`tables: [b, a], read_tables: [c, c], resources: [{name: /vendor/api/}, {name: gpu, slots: 2}]`), []string{
				"exclusive no slots path:vendor/api", "slot 2 slots slot:gpu",
				"exclusive no slots table:public/a", "exclusive no slots table:public/b",
				"shared no slots table:public/c",
			}},
		{"none", job("recover: true"), nil},
		{"text, number and boolean placeholders",
			job(
				`tables: ["e_{t}_{n}_{b}"], read_tables: ["{t}.x"], resources: [{name: "dir/{t}.csv"}], params: {t: Acme, n: 007, b: true, args: 1}`), []string{
				"exclusive no slots path:dir/Acme.csv", "shared no slots table:acme/x",
				"exclusive no slots table:public/e_acme_007_true",
			}},
		{"a placeholder from a variable", job(`tables: ["e_{args}"], params: {args: "${ACCOUNT}"}`),
			[]string{"exclusive no slots table:public/e_acme"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := func(name string) (string, bool) { return "acme", name == "ACCOUNT" }
			c, err := Parse("c.yaml", []byte(test.text), WithEnv(env))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range c.Jobs[0].Requests {
				got = append(got, string(r.Mode)+" "+slotWords(r.Slots)+" "+r.Resource.Key())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-expected +found)\n%s", diff)
			}
		})
	}
}

// The values would change the table or schema that the resource names.
func TestPlaceholdersStayInTheirSegment(t *testing.T) {
	for _, value := range []string{`a.b`, `a/b`, `.`, `..`, ``, `a\"`, `a\nb`, `\0`} {
		if _, err := parse(job(`tables: ["x.e{args}"], params: {args: "` + value +
			`"}`)); err == nil {
			t.Errorf("%q was taken", value)
		}
	}
	for _, value := range []string{`a/b`, `.`, `..`, ``, `a\nb`} {
		if _, err := parse(job(`resources: [{name: "x/{args}"}], params: {args: "` + value +
			`"}`)); err == nil {
			t.Errorf("%q was taken for a resource", value)
		}
	}
}

func TestSharedJobsMayOverlap(t *testing.T) {
	j := mustParse(t, job("read_tables: [a], resources: [{name: gpu, slots: 2}], overlap: allow")).
		Jobs[0]
	for _, r := range j.Requests {
		if r.Mode == locking.Exclusive {
			t.Errorf("found an exclusive lock on %s", r.Resource)
		}
	}
	if j.Overlap != "allow" || len(j.Requests) != 2 {
		t.Errorf("got %s", j)
	}
}

func TestTooManyResources(t *testing.T) {
	tables := strings.Repeat("a,", locking.MaxRequests)
	if _, err := parse(job("tables: [" + tables + "]")); err != nil {
		t.Errorf("%d tables: found %v", locking.MaxRequests, err)
	}
	_, err := parse(job("tables: [" + tables + "], resources: [{name: b}]"))
	const want = "found 1001 tables and resources, expected at most 1000"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("found %v, expected %s", err, want)
	}
}
