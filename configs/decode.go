package configs

import (
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/retry"
)

// decoder fills a Config from the tree. If a value has a mistake, it reports the mistake and leaves
// the default.
type decoder struct {
	*document
	config *Config
	folder string // base of relative *_file paths
}

// starter is a type whose default within lists and behind pointers is not its zero value.
type starter interface{ start(c *Config) }

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	paramsType   = reflect.TypeFor[Params]()
	forEachType  = reflect.TypeFor[ForEach]()
	specType     = reflect.TypeFor[schedule.Spec]()
	policyType   = reflect.TypeFor[retry.Policy]()
	waitType     = reflect.TypeFor[Wait]()
	networkType  = reflect.TypeFor[netip.Prefix]()
	misfireType  = reflect.TypeFor[Misfire]()
)

// decode sets v from n by the type of v.
func (d *decoder) decode(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	if n.kind == kindInvalid {
		return
	}
	if n.kind == kindNull {
		d.report(n.pos, path, "found nothing, expected %s; a key that is left out has its default",
			expectation(v.Type(), rules))
		return
	}
	switch t := v.Type(); {
	case t == paramsType:
		if params, ok := d.decodeParams(n, path); ok {
			v.Set(reflect.ValueOf(params))
		}
	case t == forEachType:
		d.decodeForEach(n, v, path)
	case t == specType:
		d.decodeSchedule(n, v, path, rules)
	case t == policyType:
		d.decodePolicy(n, v, path, rules)
	case t == waitType:
		d.decodeWait(n, v, path, rules)
	case t == misfireType && n.kind != kindMapping:
		d.decodeMisfire(n, v, path)
	case t == secretType, t == durationType, t == timeType, t == networkType:
		d.decodeScalar(n, v, path, rules)
	case t.Kind() == reflect.Struct:
		d.decodeStruct(n, v, path)
	case t.Kind() == reflect.Slice:
		d.decodeList(n, v, path)
	case t.Kind() == reflect.Map:
		d.decodeMap(n, v, path)
	case t.Kind() == reflect.Pointer:
		d.decodePointer(n, v, path, rules)
	default:
		d.decodeScalar(n, v, path, rules)
	}
}

func (d *decoder) decodeStruct(n *node, v reflect.Value, path string) {
	if n.kind != kindMapping {
		d.mismatch(n, path, v.Type(), "")
		return
	}
	fields := fieldsOf(v.Type())
	d.reportUnknown(n, fields.keys, path)
	for _, f := range fields.list {
		// in the order of the schema, because later defaults depend on earlier values
		value := n.entry(f.key)
		if value == nil {
			continue
		}
		at := keyPath(path, f.key)
		if !f.file {
			d.decode(value, v.Field(f.index), at, f.rules)
			continue
		}
		if plain := f.key[:len(f.key)-len("_file")]; n.entry(plain) != nil {
			d.failKey(at, "found both %s and %s, expected one of them", plain, f.key)
			continue
		}
		d.decodeFile(value, v.Field(f.index), at)
	}
}

func (d *decoder) reportUnknown(n *node, keys []string, path string) {
	for _, e := range n.entries {
		if !slices.Contains(keys, e.name) {
			d.failKey(keyPath(path, e.name), "unknown key%s", suggest.Hint(e.name, keys))
		}
	}
}

func (d *decoder) decodeList(n *node, v reflect.Value, path string) {
	if n.kind != kindList {
		d.mismatch(n, path, v.Type(), "")
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(n.items))
	for i, item := range n.items {
		if d.full() { // further mistakes are not listed, and take long to find
			d.reportMore(item.pos, itemPath(path, i))
			break
		}
		list = reflect.Append(list, reflect.Zero(v.Type().Elem()))
		startAt(list.Index(i), d.config)
		d.decode(item, list.Index(i), itemPath(path, i), "")
	}
	v.Set(list)
}

// decodeMap decodes a mapping whose keys are names.
func (d *decoder) decodeMap(n *node, v reflect.Value, path string) {
	if n.kind != kindMapping {
		d.mismatch(n, path, v.Type(), "")
		return
	}
	named := reflect.MakeMap(v.Type())
	for _, e := range n.entries {
		value := reflect.New(v.Type().Elem()).Elem()
		startAt(value, d.config)
		d.decode(e.value, value, keyPath(path, e.name), "")
		named.SetMapIndex(reflect.ValueOf(e.name), value)
	}
	v.Set(named)
}

func (d *decoder) decodePointer(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	fresh := reflect.New(v.Type().Elem())
	startAt(fresh.Elem(), d.config)
	d.decode(n, fresh.Elem(), path, rules)
	v.Set(fresh)
}

// startAt sets the defaults of an element of a list, or of the value of a pointer.
func startAt(v reflect.Value, c *Config) {
	if s, ok := v.Addr().Interface().(starter); ok {
		s.start(c)
	}
}

// mismatch reports a value of the wrong kind. It does not quote the value, because text in place of
// a mapping may be a secret.
func (d *decoder) mismatch(n *node, path string, t reflect.Type, rules reflect.StructTag) {
	found := n.found()
	if n.kind == kindText || t == secretType {
		found = n.kind.String()
	}
	d.report(n.pos, path, "found %s, expected %s", found, expectation(t, rules))
}

// expectation describes valid values of the type.
func expectation(t reflect.Type, rules reflect.StructTag) string {
	switch {
	case t == paramsType:
		return "a mapping of the handler's params"
	case t == forEachType:
		return forEachWords
	case t == specType:
		return "a cron expression in quotes or a mapping of one of " + scheduleKinds
	case t == misfireType:
		return "one of " + misfirePolicies + ", or a mapping of causes to them"
	case t == durationType:
		return within("a duration such as 90s or 1h30m", rules)
	case t == timeType:
		return "a time such as 2026-01-31T09:00:00Z"
	case t == networkType:
		return "a network such as 10.1.0.0/16 or fd00::/8, or one address"
	case t == secretType:
		return "text"
	case t.Kind() == reflect.Struct:
		return "a mapping of keys to values"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map:
		return "a mapping of names to mappings"
	case t.Kind() == reflect.Pointer:
		return expectation(t.Elem(), rules)
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return within("a whole number", rules)
	case t.Kind() == reflect.Float64:
		return within("a number", rules)
	case rules.Get("oneof") != "":
		return "one of " + rules.Get("oneof")
	}
	return "text"
}
