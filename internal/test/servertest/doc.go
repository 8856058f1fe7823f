// Package servertest starts real servers for tests: PostgreSQL, memcached and
// HAProxy, each on a free loopback port with its data in a temporary folder, and
// a TCP proxy that breaks the connections between them and a client.
//
// Each server is stopped by its own process id. On Linux the kernel stops it if the test binary
// dies first. If a server is not installed, the error names the Debian package. No test is skipped.
//
// The start of PostgreSQL takes about a second. So a test binary shares one server among all tests,
// started in TestMain, and each test takes a database of its own. `make test` starts one server for
// all packages. A test binary that runs alone starts its own:
//
//	var server *servertest.Postgres
//
//	func TestMain(m *testing.M) {
//		os.Exit(servertest.Main(m, func(pg *servertest.Postgres) { server = pg }))
//	}
//
//	func TestStore(t *testing.T) {
//		url := server.Database(t)
//		…
//	}
//
// memcached and HAProxy start in a few milliseconds, so each test may start its own.
package servertest
