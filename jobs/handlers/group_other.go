//go:build !unix

package handlers

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"time"
)

func runGroup(context.Context, *exec.Cmd, time.Duration, ...io.Writer) (stopped bool, err error) {
	return false, errors.New("command jobs need a system with process groups and signals")
}
