package configs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

func (d *decoder) decodeScalar(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	switch t := v.Type(); {
	case !n.scalar():
		d.mismatch(n, path, t, rules)
	case t == secretType:
		d.decodeSecret(n, v, path)
	case t == durationType:
		d.decodeDuration(n, v, path, rules)
	case t == timeType:
		d.decodeTime(n, v, path)
	case t == networkType:
		d.decodeNetwork(n, v, path)
	case t.Kind() == reflect.Bool:
		if n.kind != kindBool {
			d.unexpected(n, v, path, rules)
			return
		}
		v.SetBool(boolText(n) == "true")
	case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
		d.decodeNumber(n, v, path, rules)
	default:
		d.decodeText(n, v, path, rules)
	}
}

func (d *decoder) unexpected(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	d.report(n.pos, path, "found %s, expected %s", n.found(), expectation(v.Type(), rules))
}

// isText reports whether a scalar may be text. Unquoted numbers and booleans may not, except under
// the rule numbers. The value of a variable always may.
func (n *node) isText() bool { return n.kind == kindText || n.scalar() && n.expanded }

func (d *decoder) decodeText(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	options := rules.Get("oneof")
	switch {
	case !n.scalar():
		d.mismatch(n, path, v.Type(), rules)
	case !n.isText() && options == "" && (n.kind != kindInt || rules.Get("numbers") == ""):
		d.report(n.pos, path, "found %s, expected text; put it in quotes", n.found())
	case options != "" && !slices.Contains(strings.Split(options, ", "), n.text):
		d.report(n.pos, path, "found %s, expected one of %s%s", n.found(), options,
			near(n, options))
	default:
		v.SetString(n.text)
	}
}

// near suggests the option that was probably meant. It suggests nothing for a variable.
func near(n *node, options string) string {
	if best := suggest.Of(n.text, strings.Split(options, ", ")); best != "" && !n.expanded {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

func (d *decoder) decodeSecret(n *node, v reflect.Value, path string) {
	if !n.isText() {
		d.report(n.pos, path, "found %s, expected text; put it in quotes", n.kind)
		return
	}
	v.Set(reflect.ValueOf(NewSecret(n.text)))
}

// decodeFile reads a secret from the file that n names.
func (d *decoder) decodeFile(n *node, v reflect.Value, path string) {
	switch {
	case n.kind == kindInvalid:
		return
	case !n.isText():
		d.mismatch(n, path, reflect.TypeFor[string](), "")
		return
	}
	name := n.text
	if !filepath.IsAbs(name) {
		name = filepath.Join(d.folder, name)
	}
	text, problem := readSecret(name)
	if problem != "" {
		d.report(n.pos, path, "found %s: %s, expected a file with the value", n.found(), problem)
		return
	}
	v.Set(reflect.ValueOf(NewSecret(text)))
}

func readSecret(name string) (text, problem string) {
	const most = 64 << 10
	file, err := os.Open(name)
	if err != nil {
		return "", reasonOf(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	switch text = strings.TrimSpace(string(content)); {
	case err != nil:
		return "", reasonOf(err)
	case len(content) > most:
		return "", "the file has more than 64 KiB"
	case text == "":
		return "", "the file is empty"
	}
	return text, ""
}

// reasonOf returns the error without the path, which may come from a variable.
func reasonOf(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

func (d *decoder) decodeDuration(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	switch value, err := time.ParseDuration(n.text); {
	case err != nil:
		d.unexpected(n, v, path, rules)
	case !inDurations(value, rules):
		d.report(n.pos, path, "found %s, expected %s", n.found(), bounds(rules))
	case value > 0 && value < shortest:
		hint := ""
		if d.built {
			hint = "; in Go, a number without a unit is in nanoseconds"
		}
		d.report(n.pos, path, "found %s, expected 0s, or %s or more%s", n.found(), shortest, hint)
	default:
		v.SetInt(int64(value))
	}
}

// shortest is the shortest duration in a configuration. A shorter one is a mistake in the unit.
const shortest = time.Millisecond

func (d *decoder) decodeTime(n *node, v reflect.Value, path string) {
	value, err := time.Parse(time.RFC3339, n.text)
	if err != nil {
		d.unexpected(n, v, path, "")
		return
	}
	v.Set(reflect.ValueOf(value))
}

// decodeNetwork parses a network such as 10.1.0.0/16, or a single address. Bits beyond the mask are
// a mistake.
func (d *decoder) decodeNetwork(n *node, v reflect.Value, path string) {
	network, err := netip.ParsePrefix(n.text)
	if address, errAddress := netip.ParseAddr(n.text); errAddress == nil && address.Zone() == "" {
		network, err = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	switch {
	case err != nil || network.Addr().Is4In6():
		d.unexpected(n, v, path, "")
	case network != network.Masked():
		d.report(n.pos, path, "found %s, expected %s: the address of the network, not of one "+
			"within it", n.found(), network.Masked())
	default:
		v.Set(reflect.ValueOf(network))
	}
}

func (d *decoder) decodeNumber(n *node, v reflect.Value, path string, rules reflect.StructTag) {
	if v.Kind() == reflect.Int && n.kind == kindInt {
		value, err := integer(n.text)
		if err == nil && inNumbers(float64(value), rules) {
			v.SetInt(value)
			return
		}
	}
	if v.Kind() == reflect.Float64 && (n.kind == kindInt || n.kind == kindFloat) {
		value, err := strconv.ParseFloat(n.text, 64)
		if err == nil && !math.IsInf(value, 0) && inNumbers(value, rules) {
			v.SetFloat(value)
			return
		}
	}
	d.unexpected(n, v, path, rules)
}
