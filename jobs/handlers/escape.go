package handlers

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"mime"
	"net/url"
	"strings"
)

// expandURL replaces the templates of a URL. Values are escaped for the path or for the query. They
// cannot be a part of the scheme and the host, and cannot lead to another directory of the path.
func (e *expander) expandURL(text string) (string, error) {
	pieces, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	var written, expanded strings.Builder // written has a name for each value
	for _, p := range pieces {
		if p.name == "" {
			written.WriteString(p.text)
			expanded.WriteString(p.text)
			continue
		}
		_, rest, _ := strings.Cut(written.String(), "://")
		escape := url.PathEscape
		switch {
		case strings.Contains(rest, "?"):
			escape = url.QueryEscape
		case !strings.Contains(rest, "/"):
			return "", errors.New("found a template before the path; scheme and host cannot have " +
				"any")
		}
		value, err := e.value(p, escape)
		if err != nil {
			return "", err
		}
		written.WriteString("x" + p.name)
		expanded.WriteString(value)
	}
	if dotSegments(expanded.String()) > dotSegments(written.String()) {
		return "", errors.New(`found a value that makes the segment "." or ".." of the path`)
	}
	return expanded.String(), nil
}

// dotSegments returns how many segments of the path of a URL are "." or "..".
func dotSegments(text string) (n int) {
	path, _, _ := strings.Cut(text, "?")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			n++
		}
	}
	return n
}

// bodyEscape returns how values are escaped in a body of that media type: as the inner part of a
// JSON string, for a form, for XML, or not at all. A body without a type that begins like JSON is
// taken for JSON.
func bodyEscape(contentType, body string) func(string) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	begins := strings.TrimSpace(body)
	switch {
	case kind == "application/json" || strings.HasSuffix(kind, "+json"),
		contentType == "" && (strings.HasPrefix(begins, "[") ||
			strings.HasPrefix(begins, "{") && !strings.HasPrefix(begins, templateOpen)):
		return jsonEscape
	case kind == "application/x-www-form-urlencoded":
		return url.QueryEscape
	case kind == "application/xml" || kind == "text/xml" || kind == "text/html" ||
		strings.HasSuffix(kind, "+xml"):
		return xmlEscape
	}
	return asItIs
}

func jsonEscape(value string) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return "" // no text has an error
	}
	return string(encoded[1 : len(encoded)-1])
}

func xmlEscape(value string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(value)) // a Builder returns no error
	return out.String()
}
