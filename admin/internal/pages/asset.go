package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"regexp"
)

//go:embed static/*.css static/*.js static/*.svg
var staticFiles embed.FS

// Assets are the page's files. Each name contains a hash of the content, so that browsers cache a
// file for good and fetch a changed file under its new name.
type Assets struct {
	ByName map[string]Asset // by the name without a hash
}

// Asset is one file.
type Asset struct {
	Hashed      string // its name
	contentType string
	Body        []byte
}

func newAssets() (*Assets, error) {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, err
	}
	a := &Assets{ByName: make(map[string]Asset)}
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
		a.ByName[entry.Name()] = Asset{stem + "." + hex.EncodeToString(sum[:8]) + ext, contentType,
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
func (a *Assets) url(name string) (string, error) {
	file, ok := a.ByName[name]
	if !ok {
		return "", fmt.Errorf("no static file %s", name)
	}
	return "/static/" + file.Hashed, nil
}

// plainName returns a file's name without its hash, or "" if the name has none.
func plainName(name string) string {
	parts := regexp.MustCompile(`^([a-z]+)\.[0-9a-f]{16}(\.[a-z]+)$`).FindStringSubmatch(name)
	if parts == nil {
		return ""
	}
	return parts[1] + parts[2]
}

// ServeFile serves a file with a lifetime of a year. A name with another hash comes from a replica
// of another version behind the same load balancer. It gets this version's file without caching, so
// that the page has a style.
func (s *Site) ServeFile(w http.ResponseWriter, r *http.Request) {
	asked := r.PathValue("file")
	if file, ok := s.Templates.Assets.ByName[plainName(asked)]; ok {
		if asked == file.Hashed {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		WriteBody(w, http.StatusOK, file.contentType, file.Body)
		return
	}
	s.NotFound(w, r)
}

// ServeIcon serves the icon that browsers request beside answers that name none, such as JSON.
func (s *Site) ServeIcon(w http.ResponseWriter, _ *http.Request) {
	file := s.Templates.Assets.ByName["icon.svg"]
	WriteBody(w, http.StatusOK, file.contentType, file.Body)
}
