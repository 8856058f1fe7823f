package locking

import "strings"

// ParseDisplay is the inverse of Resource.String.
func ParseDisplay(text string) (Resource, error) {
	if strings.Contains(text, ":") {
		if r, err := ParseKey(text); err == nil {
			return r, nil
		}
	}
	return newResource(KindTable, text)
}
