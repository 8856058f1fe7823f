// Package oidc signs people in by an OpenID Connect provider: the authorization code flow with
// PKCE. It knows nothing of cookies and roles.
package oidc
