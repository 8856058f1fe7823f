// Command scheduler runs Holdfast with its built-in handlers: sql, http and
// command.
package main

import (
	_ "time/tzdata" // zones are known where the machine has no zoneinfo

	"github.com/holdfast-dev/holdfast"
)

func main() {
	holdfast.Main()
}
