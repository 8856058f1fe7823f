package holdfast_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// TestDocumentedAuthorizer checks that docs/jobs-in-go.md has the authorizer of
// authorizer_example_test.go, and that it keeps the contract of permission.Authorizer.
func TestDocumentedAuthorizer(t *testing.T) {
	source, err := os.ReadFile("authorizer_example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("docs/jobs-in-go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(source), "// Teams decides")
	shown, _, found := strings.Cut(shown, "\nfunc ExampleWithAuthorizer")
	if !found || !strings.Contains(string(text), "```go\n// Teams decides"+shown+"```\n") {
		t.Error("docs/jobs-in-go.md has another authorizer than authorizer_example_test.go")
	}
	teams := Teams{"anna": {"billing"}, "bob": {"operations"}, "carl": nil}
	targets := []permission.Target{{Kind: permission.Something},
		{Kind: permission.Group, Name: "billing"}, {Kind: permission.Group, Name: "other"},
		{Kind: permission.Job, Name: "a", Group: "billing"}, {Kind: permission.Job, Name: "a"},
		{Kind: permission.Resource, Name: "public/orders"}}
	may := map[string]bool{"anna": true, "bob": true, "carl": false, "eve": false}
	for name, want := range may {
		err := teams.Authorize(t.Context(), permission.Identity{Name: name}, permission.Trigger,
			targets[3])
		if (err == nil) != want {
			t.Errorf("%s triggers a job of billing: got %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"anna", "bob", "carl", "eve", ""} {
		who := permission.Identity{Name: name}
		for _, p := range permission.All() {
			may := func(target permission.Target) bool {
				err := teams.Authorize(t.Context(), who, p, target)
				var denied *permission.DeniedError
				if err != nil && !errors.As(err, &denied) {
					t.Errorf("%s on %s: got %v, want a *DeniedError", p, target, err)
				}
				return err == nil
			}
			any := false
			for _, target := range targets {
				allowed := may(target)
				any = any || allowed
				if may(permission.Target{Kind: permission.Everything}) && !allowed {
					t.Errorf("%q has %s on everything, but not on %s", name, p, target)
				}
			}
			if any && !may(permission.Target{Kind: permission.Something}) {
				t.Errorf("%q has %s on a target, but not on something", name, p)
			}
		}
	}
}
