package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/locking"
)

// change is what a node did to paths of a customer while it held their lock.
// The times are the machine's clock, which all nodes share here.
type change struct {
	customer    string
	paths       []string
	from, until int64 // nanoseconds
}

// String is the line that a node prints.
func (c change) String() string {
	return fmt.Sprintf("change %s %d %d %s", c.customer, c.from, c.until,
		strings.Join(c.paths, " "))
}

// parseChange is the inverse of String, without its first word.
func parseChange(text string) (change, error) {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return change{}, fmt.Errorf("change %q: expected a customer, two times and paths", text)
	}
	c := change{customer: fields[0], paths: fields[3:]}
	var err error
	if c.from, err = strconv.ParseInt(fields[1], 10, 64); err == nil {
		c.until, err = strconv.ParseInt(fields[2], 10, 64)
	}
	return c, err
}

// overlaps returns how many pairs of changes of related paths overlapped.
func overlaps(changes []change) (int, error) {
	byCustomer := map[string][]change{}
	for _, c := range changes {
		byCustomer[c.customer] = append(byCustomer[c.customer], c)
	}
	found := 0
	for _, all := range byCustomer {
		slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.from, b.from) })
		for i, a := range all {
			for _, b := range all[i+1:] {
				if b.from >= a.until {
					break
				}
				related, err := related(a, b)
				if err != nil {
					return 0, err
				}
				if related {
					found++
				}
			}
		}
	}
	return found, nil
}

func related(a, b change) (bool, error) {
	for _, one := range a.paths {
		for _, other := range b.paths {
			x, err := resourceOf(a.customer, one)
			if err != nil {
				return false, err
			}
			var y locking.Resource
			if y, err = resourceOf(b.customer, other); err != nil {
				return false, err
			}
			if x.Related(y) {
				return true, nil
			}
		}
	}
	return false, nil
}
