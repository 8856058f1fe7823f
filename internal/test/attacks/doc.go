// Package attacks repeats the attacks of the security trial from outside. The replicas are
// processes of their own, and all connections are real network connections. The numbers of the
// attacks are those of the findings in the table of docs/security.md. The table also names a quick
// test of each, which `make test` runs.
//
//	make soak PACKAGES=./internal/test/attacks
//
// Each attack reports a line with what it measured. HOLDFAST_ATTACKS_REPORT=FILE appends these
// lines to a file. All traffic stays on loopback, and each attack has a fixed number of requests.
package attacks
