package configs

import "reflect"

const misfirePolicies = "run_once, skip, run_all"

// decodeMisfire reads one policy, which is for what no replica was up for or had
// a worker for; the other causes keep their own.
func (d *decoder) decodeMisfire(n *node, v reflect.Value, path string) {
	if !n.isText() {
		d.mismatch(n, path, misfireType, "")
		return
	}
	misfire := v.Interface().(Misfire)
	d.decodeText(n, reflect.ValueOf(&misfire.NobodyUp).Elem(), path, `oneof:"`+misfirePolicies+`"`)
	misfire.NoWorker = misfire.NobodyUp
	v.Set(reflect.ValueOf(misfire))
}
