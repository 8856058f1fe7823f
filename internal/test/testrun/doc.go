// Command testrun runs `go test` for the Makefile, and leaves nothing behind.
//
//	testrun [-runs N] [-busy N] [--] ARGUMENTS OF GO TEST
//
// Around `go test` it does five things:
//
//   - It starts one PostgreSQL server for the packages that use servertest.Main.
//   - It gives the tests a folder for temporary files, and removes it at the end.
//   - It ends every process that a test started and did not end. Such a process
//     fails the run and is named, unless the run was interrupted.
//   - It runs a package once more if the race detector itself fails in it before any test does. A
//     check in the detector's runtime ("ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346") failed in
//     two of twelve runs on a busy machine. One cause is go.dev/issue/78156, which package
//     internal/sleep avoids.
//   - It prints the lines of go test for each package, the output of tests that
//     failed in full, and the slowest tests at the end.
//
// The exit code is that of `go test`. It is 130 after SIGINT, SIGTERM or SIGHUP.
//
// # What ends the processes
//
// No step relies on a test's own cleanup, because a test binary may be killed or end itself at its
// timeout. On Linux there are three mechanisms.
//
// First, each process dies with the one that started it. The kernel sends it a signal
// (PR_SET_PDEATHSIG). For servers, internal/test/servertest requests this signal. For test
// binaries, `testrun -bind` does, which `go test -exec` runs. This also covers a SIGKILL of
// testrun.
//
// Second, testrun is the subreaper of all processes that its tests start. A process whose parent
// died becomes a child of testrun, even if it left its process group. At the end testrun waits for
// its descendants and kills the remaining ones.
//
// Third, testrun holds a file lock on the folder for temporary files while it runs. The next
// testrun removes the folders whose lock is free.
//
// On systems other than Linux, testrun only removes the folders.
package main
