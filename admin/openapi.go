package admin

import _ "embed"

// openAPI describes the JSON API. A test writes it from the operations of
// openapi_test.go and the types that are answered with, and holds it to what
// the handlers do: HOLDFAST_UPDATE=1 go test ./admin -run OpenAPI.
//
//go:embed openapi.json
var openAPI []byte
