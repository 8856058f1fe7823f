// Package servertest starts real servers for tests: PostgreSQL, memcached and
// HAProxy, each on a free loopback port with its data in a temporary folder, and
// a TCP proxy that breaks the connections between them and a client.
//
// What is started is stopped by its own process id, and by the kernel when the
// test binary dies first (on Linux). A server that is not installed is an error
// that names the Debian package; nothing is ever skipped.
//
// Starting PostgreSQL takes about a second, so a test binary has one for all
// its tests in TestMain, and each test takes a database of its own. `make test`
// starts one for all packages, and a test binary that runs alone its own:
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
// memcached and HAProxy start in a few milliseconds: one a test is fine.
package servertest
