// Package configs reads the YAML file that describes a replica and its cron table.
//
// # Reading
//
// Load and Parse read a file in four steps. They parse the YAML into a tree with positions. They
// expand ${ENV} in its values. They decode the tree into a Config that begins as Defaults. They
// check rules that span several keys, and normalize the schedule and the resources of every job.
// Every step continues after a mistake. So all mistakes of a file are reported together, at most
// 200, as *Errors. Each has file, line, column and key, the value that was found and the values
// that were expected. If a file is not YAML, only the first mistake is reported. A returned Config
// has passed every check.
//
// # Strictness
//
// These are mistakes: unknown keys, repeated keys, values of another type, keys without a value,
// and numbers out of range. A number where text is expected is a mistake too: quotes make it
// text. Anchors, aliases and merge keys (<<) are supported. Tags and several documents in a file
// are not.
//
// # Values from outside
//
// ${NAME} in any value becomes the value of that environment variable. ${NAME:-default} has a
// default for a variable that is unset or empty, and $${ is a literal ${. An unset variable without
// a default is a mistake. Inside { } and [ ] such a value needs quotes, because of the rules of
// YAML. An unquoted value is parsed again after the expansion, so that it may become a number. A
// quoted one stays text.
//
// A key whose value is a secret, such as database.url, has a second form, such as
// database.url_file. The second form names a file that contains the value. Its path is relative to
// the folder of the configuration.
//
// # Secrets
//
// Secret and Params print, format and marshal without secrets: a Secret as "[redacted]", a param as
// it is written in the file, before expansion. A Problem never quotes a secret. It quotes the value
// of a variable only in names of tables and resources, which the admin page shows too. In messages
// of handlers about params the values of variables are redacted (internal/redact).
//
// # Limits of this package
//
// This package does not know the handlers of a program. With the option WithHandlers, it checks the
// handler and the params of each job. It opens no database, socket or lock.
package configs
