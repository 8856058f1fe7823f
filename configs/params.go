package configs

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// decodeParams converts a mapping to JSON, with keys in the order of the file.
func (d *decoder) decodeParams(n *node, path string) (Params, bool) {
	if n.kind != kindMapping {
		d.report(n.pos, path, "found %s, expected a mapping of the handler's params", n.kind)
		return Params{}, false
	}
	before := len(d.problems)
	var out bytes.Buffer
	d.writeJSON(&out, n, path, false)
	if len(d.problems) > before || !d.sound(path) {
		return Params{}, false
	}
	params := Params{value: bytes.Clone(out.Bytes()), secrets: n.allSecrets()}
	params.written = params.value
	out.Reset()
	if d.writeJSON(&out, n, path, true); !bytes.Equal(out.Bytes(), params.value) {
		params.written = bytes.Clone(out.Bytes())
	}
	return params, true
}

// allSecrets returns what must not be shown of a node: the values of variables in it, and whole
// URLs that have some. Scheme and host of a URL with a scheme may be shown.
func (n *node) allSecrets() (secrets []string) {
	if n.expanded && n.scalar() {
		u, err := url.Parse(n.text)
		if err == nil && u.Host != "" && (u.Scheme != "" || u.User != nil) {
			shown := ""
			if u.Scheme != "" {
				shown = u.Scheme + "://" + u.Host
			}
			secrets = append(secrets, n.text)
			for _, value := range n.secrets {
				if !strings.Contains(shown, value) {
					secrets = append(secrets, value)
				}
			}
			return secrets
		}
	}
	secrets = append(secrets, n.secrets...)
	for _, e := range n.entries {
		secrets = append(secrets, e.value.allSecrets()...)
	}
	for _, item := range n.items {
		secrets = append(secrets, item.allSecrets()...)
	}
	return secrets
}

// writeJSON writes n as JSON, with variables as written or expanded.
func (d *decoder) writeJSON(out *bytes.Buffer, n *node, path string, written bool) {
	switch {
	case n.kind == kindMapping:
		out.WriteByte('{')
		for i, e := range n.entries {
			if i > 0 {
				out.WriteByte(',')
			}
			writeText(out, e.name)
			out.WriteByte(':')
			d.writeJSON(out, e.value, keyPath(path, e.name), written)
		}
		out.WriteByte('}')
	case n.kind == kindList:
		out.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				out.WriteByte(',')
			}
			d.writeJSON(out, item, itemPath(path, i), written)
		}
		out.WriteByte(']')
	case written && (n.expanded || n.kind == kindText):
		writeText(out, n.written)
	default:
		d.writeScalar(out, n, path)
	}
}

func (d *decoder) writeScalar(out *bytes.Buffer, n *node, path string) {
	switch n.kind {
	case kindText:
		writeText(out, n.text)
	case kindBool:
		out.WriteString(boolText(n))
	case kindInt, kindFloat:
		text, err := jsonNumber(n)
		if err != nil {
			d.report(n.pos, path, "found %s, %v", n.found(), err)
		}
		out.WriteString(text)
	default:
		out.WriteString("null")
	}
}

func boolText(n *node) string {
	if n.text[0] == 't' || n.text[0] == 'T' {
		return "true"
	}
	return "false"
}

func writeText(out *bytes.Buffer, s string) {
	if isPlain(s) { // most texts are, and an encoder takes ten times as long
		out.WriteByte('"')
		out.WriteString(s)
		out.WriteByte('"')
		return
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s)       // text always encodes
	out.Truncate(out.Len() - 1) // the newline
}

// isPlain reports whether JSON has the text as it is, between quotes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
