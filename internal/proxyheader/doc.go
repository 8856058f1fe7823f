// Package proxyheader says which headers a trusted proxy may use.
package proxyheader
