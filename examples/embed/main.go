package main

import (
	_ "time/tzdata" // zones are known where the machine has no zoneinfo

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/examples/embed/sales"
)

func main() {
	cli.Main(holdfast.WithHandlers(sales.Handlers()...))
}
