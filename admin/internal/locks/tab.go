package locks

import (
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Tab is one of the lock pages.
type Tab struct {
	Path, Name string
	Here       bool
}

// Tabs links the lock pages. All but the first keep the selected resource.
func Tabs(address string) []Tab {
	path, rawQuery, _ := strings.Cut(address, "?")
	query := url.Values{}
	if asked, err := url.ParseQuery(rawQuery); err == nil && asked.Get("resource") != "" {
		query.Set("resource", asked.Get("resource"))
	}
	tabs := []Tab{{"/locks", "Current", false}, {"/locks/timeline", "Timeline", false},
		{"/locks/contention", "Contention", false},
		{"/locks/upcoming", "Upcoming conflicts", false}}
	for i, tab := range tabs {
		tabs[i].Here = tab.Path == path
		if tab.Path != "/locks" {
			tabs[i].Path = param.Address(tab.Path, query)
		}
	}
	return tabs
}

// LockStates names the states of the filter.
func LockStates() map[string]string {
	return map[string]string{"held": "held", "waiting": "waited for", "free": "free"}
}

// NodeList is the children of a node, with the time and whether the viewer may act.
type NodeList struct {
	Now     time.Time
	Node    *ResourceNode
	Actions bool
}

// NewNodeList returns the children of a node.
func NewNodeList(now time.Time, node *ResourceNode, actions bool) NodeList {
	return NodeList{now, node, actions}
}

// AdvisoryWords describes the advisory lock of a lock.
func AdvisoryWords(l Lock) string {
	if l.Advisory != AdvisoryOther {
		return string(l.Advisory)
	}
	return words.Cut("held by "+l.OtherHolder(), 200)
}
