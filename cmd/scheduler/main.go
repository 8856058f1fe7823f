// Command scheduler runs Holdfast with its built-in handlers: sql, http and
// command.
package main

import (
	_ "time/tzdata" // for machines without a time zone database

	"github.com/holdfast-dev/holdfast/cli"
)

func main() {
	cli.Main()
}
