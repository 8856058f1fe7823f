package configs

import (
	"reflect"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// scheduleKinds are the kinds of schedules. A schedule has exactly one.
const scheduleKinds = "cron, quartz, every, at, after"

// scheduleKeys is a schedule written as a mapping. All values but after are text, which is parsed
// later.
type scheduleKeys struct {
	Cron    string   `yaml:"cron"`
	Quartz  string   `yaml:"quartz"`
	Every   string   `yaml:"every"`
	Between string   `yaml:"between"`
	At      string   `yaml:"at"`
	On      string   `yaml:"on" numbers:"yes"`
	From    string   `yaml:"from"`
	After   []string `yaml:"after"`
}

// decodeSchedule parses an expression, or a mapping of keys.
func (d *decoder) decodeSchedule(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	if n.kind != kindMapping {
		d.decodeExpression(n, v, path, rules)
		return
	}
	var keys scheduleKeys
	d.decodeStruct(n, reflect.ValueOf(&keys).Elem(), path)
	spec := schedule.Spec{Cron: keys.Cron, Quartz: keys.Quartz, After: keys.After}
	words := schedule.Recurrence{Every: keys.Every, Between: keys.Between, At: keys.At, On: keys.On,
		From: keys.From}
	every, err := time.ParseDuration(keys.Every)
	switch {
	case keys.Every == "" && keys.At != "":
		spec.At = d.instant(n.entry("at"), keyPath(path, "at"))
	case err == nil && every > 0 && words == schedule.Recurrence{Every: keys.Every}:
		spec.Every = every
	case keys.Every != "":
		spec.Recurrence = words
	}
	v.Set(reflect.ValueOf(spec))
}

func (d *decoder) instant(n *node, path string) time.Time {
	var at time.Time
	d.decodeTime(n, reflect.ValueOf(&at).Elem(), path)
	return at
}

func (d *decoder) decodeExpression(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	var text string
	d.decodeText(n, reflect.ValueOf(&text).Elem(), path, rules)
	if text == "" {
		return
	}
	spec, err := schedule.ParseSpec(text)
	switch {
	case err != nil && n.expanded:
		d.report(n.pos, path, "found %s, expected %s", n.found(), expressionWords)
	case err != nil:
		d.report(n.pos, path, "found %s: %v", n.found(), err)
	default:
		v.Set(reflect.ValueOf(spec))
	}
}
