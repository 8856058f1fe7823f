package locking

// ParseDisplay is the inverse of Resource.String.
func ParseDisplay(text string) (Resource, error) {
	if r, err := ParseKey(text); err == nil {
		return r, nil
	}
	return newResource(KindTable, text)
}
