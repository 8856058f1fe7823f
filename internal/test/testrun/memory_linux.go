package main

import (
	"os"
	"path/filepath"
	"syscall"
)

const (
	defaultFolder = "/tmp"
	memoryFolder  = "/dev/shm"
	memoryFree    = 8 << 30 // bytes; one run needed 3 GiB
	noExecution   = 8       // ST_NOEXEC of statfs(2)
)

// parentFolder returns the parent of a run's folder: TMPDIR if it names another folder than the
// default, or a folder in memory if it has room. With one database for each test on a disk, a
// database takes six times the processor time, nearly all of it in the file system.
func parentFolder() string {
	if d := os.Getenv("TMPDIR"); d != "" && filepath.Clean(d) != defaultFolder {
		return os.TempDir()
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryFolder, &fs); err != nil {
		return os.TempDir()
	}
	if fs.Flags&noExecution != 0 || fs.Bavail*uint64(fs.Bsize) < memoryFree {
		return os.TempDir()
	}
	return memoryFolder
}
