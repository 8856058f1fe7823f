package admin

import (
	_ "embed"
	"slices"

	"github.com/holdfast-dev/holdfast/admin/internal/mount"
)

// openAPI describes the JSON API. A test writes it from the operations in openapi_test.go and the
// types of the answers, and compares it with the answers of the handlers. This command writes it:
// HOLDFAST_UPDATE=1 go test ./admin -run OpenAPI.
//
//go:embed openapi.json
var openAPI []byte

// openAPIAt returns the description of the API under a prefix.
func openAPIAt(prefix mount.Prefix) []byte {
	if prefix == "" {
		return openAPI
	}
	const begin = "{"
	servers := begin + "\n  \"servers\": [{\"url\": \"" + string(prefix) + "\"}],"
	return slices.Concat([]byte(servers), openAPI[len(begin):])
}
