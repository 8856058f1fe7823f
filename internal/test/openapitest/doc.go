// Package openapitest checks that admin/openapi.json is a valid OpenAPI document. It is a module of
// its own, so that users of Holdfast do not get the library that checks it. Package admin tests
// that the document describes the API.
package openapitest
