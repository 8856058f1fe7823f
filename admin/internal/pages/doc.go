// Package pages renders the pages and the answers of the API: templates, static files, the frame of
// a page, notices, and cached pages for the time when the store does not answer. It has no routes.
package pages
