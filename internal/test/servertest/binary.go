package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// FindBinary returns the path of a server's program, which need not be in PATH. If it is missing,
// the error names the package to install. FindBinary prefers the newest of several versions of
// PostgreSQL.
func FindBinary(name, debianPackage string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	slices.SortFunc(found, func(a, b string) int { return majorVersion(b) - majorVersion(a) })
	for _, path := range append(found, "/usr/sbin/"+name) {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed. Run: sudo apt-get install %s", name, debianPackage)
}

// majorVersion returns the 15 of /usr/lib/postgresql/15/bin/initdb.
func majorVersion(path string) int {
	version, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return version
}

// account returns the user for a server process, or nil for the current user. Servers refuse to run
// as root, so root gets the named user.
func account(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("the server can't run as root and needs the user %s: %w", name, err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("uid of %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("gid of %s: %w", name, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
