package admin

import (
	_ "embed"
	"net/http"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

// openAPI describes the JSON API. A test writes it from the operations of
// openapi_test.go and the types that are answered with, and holds it to what
// the handlers do: HOLDFAST_UPDATE=1 go test ./admin -run OpenAPI.
//
//go:embed openapi.json
var openAPI []byte

// openAPIJSON serves the description of the API, in OpenAPI 3.1.
func (s *Server) openAPIJSON(w http.ResponseWriter, r *http.Request) {
	if err := param.Only(r); err != nil {
		s.writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeBody(w, http.StatusOK, "application/json", openAPI)
}
