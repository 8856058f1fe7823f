package main

import (
	"os"
	"syscall"
)

const (
	memoryFolder = "/dev/shm"
	memoryFree   = 8 << 30 // bytes; one run needed 3 GiB
	noExecution  = 8       // ST_NOEXEC of statfs(2)
)

// parentFolder returns the parent of a run's folder: TMPDIR if it is set, or a folder in memory if
// it has room. With one database for each test on a disk, the file system takes half of
// PostgreSQL's processor time.
func parentFolder() string {
	if os.Getenv("TMPDIR") != "" {
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
