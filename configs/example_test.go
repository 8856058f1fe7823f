package configs_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/configs"
)

func ExampleParse() {
	c, err := configs.Parse("holdfast.yaml", []byte(`
timezone: Europe/Berlin
jobs:
  - name: rollup-sales
    schedule: "*/5 * * * *"
    handler: sql
    tables: ["Sales_{account}"]
    params: {account: acme, statement: SELECT 1}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	job := c.Jobs[0]
	fmt.Println(job.Name, "in", job.Timezone, "locks", job.Requests[0].Resource,
		job.Requests[0].Mode)
	fmt.Println(c.Database.URL, job.Wait.Attempts, job.Overlap)
	// Output:
	// rollup-sales in Europe/Berlin locks public/sales_acme exclusive
	// [redacted] 5 skip
}

func ExampleErrors() {
	_, err := configs.Parse("holdfast.yaml", []byte(`
locking: {lease: 5s}
jobs:
  - name: rollup-sales
    tabels: [sales]
    handler: sql
`))
	fmt.Println(err)
	// Output:
	// holdfast.yaml:2:18: locking.lease: found "5s", expected 10s to 24h
	// holdfast.yaml:5:5: jobs[0].tabels: unknown key; did you mean "tables"?
}
