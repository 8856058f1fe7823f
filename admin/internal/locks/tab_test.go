package locks

import "testing"

// TestTabsKeepTheResource checks which tabs keep the selected resource.
func TestTabsKeepTheResource(t *testing.T) {
	tabs := Tabs("/locks/timeline?resource=public%2Forders&from=2026-03-14T00:00:00Z")
	for i, want := range []string{"/locks", "/locks/timeline?resource=public%2Forders",
		"/locks/contention?resource=public%2Forders", "/locks/upcoming?resource=public%2Forders"} {
		if tabs[i].Path != want || tabs[i].Here != (i == 1) {
			t.Errorf("tab %s: got %s, here %v, want %s", tabs[i].Name, tabs[i].Path, tabs[i].Here,
				want)
		}
	}
}
