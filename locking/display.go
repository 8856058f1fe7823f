package locking

// ParseDisplay is the inverse of Resource.String: a key such as "path:a/b", or
// the bare path of a table.
func ParseDisplay(text string) (Resource, error) {
	if r, err := ParseKey(text); err == nil {
		return r, nil
	}
	return newResource(KindTable, text)
}
