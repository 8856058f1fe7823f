package openapitest

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestDocumentIsValid checks the served document against the rules of OpenAPI.
func TestDocumentIsValid(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromFile("../../../admin/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if document.Paths.Len() == 0 {
		t.Fatal("got a document without paths")
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
