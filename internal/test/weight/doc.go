// Package weight tests what a program links that embeds Holdfast, and which modules only tests
// need. Users should not get libraries that they do not use.
package weight
