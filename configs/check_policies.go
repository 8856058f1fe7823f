package configs

import (
	"github.com/holdfast-dev/holdfast/internal/durations"
	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/locking"
)

func (c *checker) checkCatchUp() {
	const path = "catch_up.workers"
	if most := c.config.Workers; c.sound(path) && c.sound("workers") &&
		c.config.CatchUp.Workers > most {
		c.fail(path, "found %d of %s, expected 0 for a quarter of them, or 1 to %d",
			c.config.CatchUp.Workers, plural.Of(most, "worker", "workers"), most)
	}
}

func (c *checker) checkGroups() {
	first := map[string]string{}
	for i, g := range c.config.Groups {
		path := itemPath("groups", i)
		if c.near(path).value.kind != kindMapping {
			continue
		}
		name := keyPath(path, "name")
		_, err := locking.Group(g.Name)
		switch at, twice := first[g.Name]; {
		case !c.sound(name):
		case !c.given(name):
			c.fail(name, "found nothing, expected the group's name")
		case err != nil || !isName(g.Name):
			c.fail(name, "found %s, expected %s, and without slashes", c.foundAt(name), nameWords)
		case twice:
			c.fail(name,
				"found %s a second time, expected each group once; the first is in %s",
				c.foundAt(name), c.whereKey(at))
		default:
			first[g.Name] = name
		}
	}
}

// checkGroup reports a group whose name resembles a defined one. Other undefined groups are allowed
// and have no limits.
func (c *checker) checkGroup(j *Job, path string) {
	if !c.sound(path) || j.Group == "" {
		return
	}
	if _, err := locking.Group(j.Group); err != nil || !isName(j.Group) {
		c.fail(path, "found %s, expected %s, and without slashes", c.foundAt(path), nameWords)
		return
	}
	var names []string
	for _, g := range c.config.Groups {
		if g.Name == j.Group {
			return
		}
		names = append(names, g.Name)
	}
	if near := suggest.Of(j.Group, names); near != "" {
		c.fail(path, "found %s, which is not among groups; did you mean %q?", c.foundAt(path), near)
	}
}

// checkDeadline reports a deadline within the jitter: firings with longer delays could never begin.
func (c *checker) checkDeadline(j *Job, path string) {
	at := keyPath(path, "deadline")
	if c.sound(at) && c.sound(keyPath(path, "jitter")) && j.Deadline > 0 && j.Deadline <= j.Jitter {
		c.fail(at, "found %s with a jitter of %s, expected more than the jitter, or 0s for no "+
			"deadline", durations.Short(j.Deadline), durations.Short(j.Jitter))
	}
}
