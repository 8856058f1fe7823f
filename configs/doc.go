// Package configs reads the YAML that describes a replica and its cron table.
//
// # Reading
//
// Load and Parse go through a file in four steps: the YAML is parsed into a
// tree with positions; ${ENV} is expanded in its values; the tree is decoded
// into a Config that starts as Defaults; what spans several keys is checked
// and every job's schedule and resources are brought into their normal form. Every step
// goes on after a mistake, so that all mistakes of a file are reported at
// once, as *Errors: file, line, column, key, what was found and what was
// expected. Only a file that is not YAML stops at the first. A Config that is
// returned has passed every check.
//
// # Strictness
//
// Unknown keys, keys given twice, values of another type, keys without a value
// and numbers out of range are mistakes. A number where text is expected is
// one too: quotes turn it into text. Anchors, aliases and merge keys (<<) are
// understood; tags and several documents in a file are not.
//
// # Values from outside
//
// ${NAME} in any value becomes that environment variable, ${NAME:-default}
// allows for one that is unset or empty, and $${ is a literal ${. A variable that is
// unset and has no default is a mistake. Inside { } and [ ] such a value needs
// quotes, as YAML has it. An unquoted value is read again after expansion, so
// that it may become a number; a quoted one stays text.
//
// A secret key such as database.url has a twin, database.url_file: the name of a file,
// relative to the folder of the configuration, whose trimmed contents are
// the value.
//
// # Secrets
//
// Secret and Params print, format and marshal without what was secret: a
// Secret as "[redacted]", a param as it is written in the file, before
// expansion. No Problem quotes a secret or the value of a variable, but for the
// names of tables and resources, which every page shows; what a handler says
// about its params is the handler's business.
//
// # What is not here
//
// Handlers are not known to this package: a Handlers given by WithHandlers
// answers for them. Nothing here opens a database, a socket or a lock.
package configs
