package admin

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

// assets are the page's files, each under a name that holds a hash of its
// content, so that a browser keeps it for good and a new one has a new name.
type assets struct {
	byName map[string]asset // by the plain name
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

// contentTypes spares the page the tables of the machine it runs on.
func contentTypes() map[string]string {
	return map[string]string{".css": "text/css; charset=utf-8",
		".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
}

// url returns where a file is served.
func (a *assets) url(name string) (string, error) {
	file, ok := a.byName[name]
	if !ok {
		return "", fmt.Errorf("no static file %s", name)
	}
	return "/static/" + file.hashed, nil
}

// static serves a file to be kept for a year. A name with another hash comes
// from a replica of another version, behind the same load balancer: it gets
// this version's file, not to be kept, rather than a page without style.
func (s *Server) static(w http.ResponseWriter, r *http.Request) {
	asked := r.PathValue("file")
	if file, ok := s.assets.byName[plainName(asked)]; ok {
		if asked == file.hashed {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		writeBody(w, http.StatusOK, file.contentType, file.body)
		return
	}
	s.notFound(w, r)
}

// icon is what browsers ask for beside an answer that names none, such as JSON.
func (s *Server) icon(w http.ResponseWriter, _ *http.Request) {
	file := s.assets.byName["icon.svg"]
	writeBody(w, http.StatusOK, file.contentType, file.body)
}

// plainName takes the hash out of a file's name; it returns "" where none is.
func plainName(name string) string {
	parts := regexp.MustCompile(`^([a-z]+)\.[0-9a-f]{16}(\.[a-z]+)$`).FindStringSubmatch(name)
	if parts == nil {
		return ""
	}
	return parts[1] + parts[2]
}
