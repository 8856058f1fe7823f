package handlers_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/handlers"
)

func Example() {
	registry, err := jobs.NewRegistry(handlers.SQL(), handlers.HTTP(nil), handlers.Command())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(registry.Names())
	_, err = registry.Bind("command", []byte(`{"command": ["pg_dump"], "grace": "1m"}`))
	fmt.Println(err)
	// Output:
	// [command http sql]
	// params: grace: found 1m0s, expected 0s to 8s
}
