package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
)

//go:embed static/*.css static/*.js static/*.svg
var staticFiles embed.FS

// assets are the page's files. Each name contains a hash of the content, so that browsers cache a
// file for good and fetch a changed file under its new name.
type assets struct {
	byName map[string]asset // by the name without a hash
}

type asset struct {
	hashed      string
	contentType string
	body        []byte
}

func newAssets() (*assets, error) {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, err
	}
	a := &assets{byName: make(map[string]asset)}
	for _, entry := range entries {
		body, err := staticFiles.ReadFile("static/" + entry.Name())
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(entry.Name())
		stem := entry.Name()[:len(entry.Name())-len(ext)]
		contentType, known := contentTypes()[ext]
		if !known {
			return nil, fmt.Errorf("%s: no content type is known", entry.Name())
		}
		a.byName[entry.Name()] = asset{stem + "." + hex.EncodeToString(sum[:8]) + ext, contentType,
			body}
	}
	return a, nil
}

// contentTypes makes the page independent of the MIME tables of the host.
func contentTypes() map[string]string {
	return map[string]string{".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
}

// url returns the path of a file.
func (a *assets) url(name string) (string, error) {
	file, ok := a.byName[name]
	if !ok {
		return "", fmt.Errorf("no static file %s", name)
	}
	return "/static/" + file.hashed, nil
}

// plainName returns a file's name without its hash, or "" if the name has none.
func plainName(name string) string {
	parts := regexp.MustCompile(`^([a-z]+)\.[0-9a-f]{16}(\.[a-z]+)$`).FindStringSubmatch(name)
	if parts == nil {
		return ""
	}
	return parts[1] + parts[2]
}
