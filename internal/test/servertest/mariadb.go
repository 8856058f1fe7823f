package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// MariaDB is a running MariaDB server. It accepts every user, without a password.
type MariaDB struct {
	dir        string
	credential *syscall.Credential
	port       int
	process    *process
}

// StartMariaDB creates the files of a server in a temporary folder, and returns once the server
// accepts connections on a free loopback port.
func StartMariaDB(ctx context.Context) (*MariaDB, error) {
	program, err := FindBinary("mariadbd", "mariadb-server")
	if err != nil {
		return nil, err
	}
	m := &MariaDB{}
	if m.credential, err = account("mysql"); err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "mariadb-"); err != nil {
		return nil, fmt.Errorf("folder for MariaDB: %w", err)
	}
	if err = m.create(ctx); err == nil {
		err = m.startSomewhere(ctx, program)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.dir))
	}
	return m, nil
}

// Addr returns host:port.
func (m *MariaDB) Addr() string { return address(m.port) }

// Stop ends the server with all its connections and removes its folder.
func (m *MariaDB) Stop() error {
	return errors.Join(m.process.end(syscall.SIGTERM, stopGrace), os.RemoveAll(m.dir))
}

func (m *MariaDB) dataDir() string { return filepath.Join(m.dir, "data") }

func (m *MariaDB) logPath() string { return filepath.Join(m.dir, "log") }

func (m *MariaDB) create(ctx context.Context) error {
	if m.credential != nil {
		if err := os.Chown(m.dir, int(m.credential.Uid), int(m.credential.Gid)); err != nil {
			return fmt.Errorf("folder for MariaDB: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults",
		"--datadir="+m.dataDir(), "--auth-root-authentication-method=normal", "--skip-test-db",
		"--innodb-log-file-size=4M", "--tmpdir="+m.dir)
	cmd.Dir = m.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: m.credential}
	DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

func (m *MariaDB) startSomewhere(ctx context.Context, program string) (err error) {
	for range startTries {
		if m.port, err = freePort(); err != nil {
			return err
		}
		if err = m.start(ctx, program); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (m *MariaDB) start(ctx context.Context, program string) error {
	logFile, err := os.Create(m.logPath())
	if err != nil {
		return fmt.Errorf("log of MariaDB: %w", err)
	}
	defer logFile.Close()
	process, err := startProcess(m.credential, syscall.SIGKILL, m.dir, logFile, program,
		"--no-defaults", "--datadir="+m.dataDir(), "--port="+strconv.Itoa(m.port),
		"--bind-address="+loopback, "--socket="+filepath.Join(m.dir, "s"),
		"--pid-file="+filepath.Join(m.dir, "pid"), "--skip-grant-tables",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=4M",
		"--innodb-buffer-pool-size=16M", "--tmpdir="+m.dir, "--innodb-use-native-aio=0")
	if err != nil {
		return err
	}
	err = process.waitReady(ctx, "MariaDB", m.logPath(), func(context.Context) bool {
		text, err := os.ReadFile(m.logPath())
		return err == nil && bytes.Contains(text, []byte("ready for connections"))
	})
	if err != nil {
		return errors.Join(err, process.end(syscall.SIGKILL, stopGrace))
	}
	m.process = process
	return nil
}
