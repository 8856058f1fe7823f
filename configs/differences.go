package configs

import "reflect"

// Differences returns the keys whose values differ between two configurations, in the order of the
// schema. Sections are compared key by key, such as database.url, and lists as a whole, such as
// jobs. Two generated replica names (Replica.Drawn) count as equal. Secrets are compared but not
// shown.
func (c *Config) Differences(other *Config) []string {
	mine, its := *c, *other
	if mine.Replica.Drawn && its.Replica.Drawn {
		its.Replica.Name = mine.Replica.Name
	}
	return differences(reflect.ValueOf(mine), reflect.ValueOf(its), "")
}

func differences(a, b reflect.Value, path string) (keys []string) {
	for _, f := range fieldsOf(a.Type()).list {
		if f.file {
			continue
		}
		key, x, y := keyPath(path, f.key), a.Field(f.index), b.Field(f.index)
		if x.Kind() == reflect.Pointer && !x.IsNil() && !y.IsNil() {
			x, y = x.Elem(), y.Elem()
		}
		switch t := x.Type(); {
		case t.Kind() == reflect.Struct && t != secretType && t != timeType && t != policyType &&
			t != misfireType:
			keys = append(keys, differences(x, y, key)...)
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}
