package configs

import "reflect"

const misfirePolicies = "run_once, skip, run_all"

// decodeMisfire parses a single policy. It applies to firings without a live replica or a free
// worker; the other causes keep their defaults.
func (d *decoder) decodeMisfire(n *node, v reflect.Value, path string) {
	if !n.isText() {
		d.mismatch(n, path, misfireType, "")
		return
	}
	misfire := v.Interface().(Misfire)
	d.decodeText(n, reflect.ValueOf(&misfire.NoReplica).Elem(), path, `oneof:"`+misfirePolicies+`"`)
	misfire.NoWorker = misfire.NoReplica
	v.Set(reflect.ValueOf(misfire))
}
