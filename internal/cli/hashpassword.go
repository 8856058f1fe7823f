package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/admin/password"
)

// hashPasswordCommand returns the command "hash-password".
func (c *commandLine) hashPasswordCommand() *cobra.Command {
	var token bool
	cmd := &cobra.Command{
		Use: "hash-password", Short: "Print the hash of a password for admin.users",
		Args: cobra.NoArgs,
		Long: `Read a password from the terminal or from standard input, and print its argon2id
hash for admin.users. With --token, generate a random token for a machine instead,
and print it with its hash for admin.tokens.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if token {
				return c.printToken()
			}
			typed, err := readPassword(cmd)
			if err != nil {
				return err
			}
			hash, err := password.New(typed)
			if err != nil {
				return fmt.Errorf("hash password: %w", err)
			}
			return c.print(map[string]string{"password_hash": hash}, hash, nil)
		},
	}
	cmd.Flags().BoolVar(&token, "token", false,
		"generate a bearer token and print it with its hash")
	return cmd
}

// printToken generates a token and prints it with its hash. Users cannot choose a token: its hash
// is a plain SHA-256, which is safe only for random tokens.
func (c *commandLine) printToken() error {
	token := rand.Text()
	sum := sha256.Sum256([]byte(token))
	hash := hex.EncodeToString(sum[:])
	return c.print(map[string]string{"token": token, "token_hash": hash}, "TOKEN\tTOKEN HASH",
		[][]string{{token, hash}})
}

// readPassword reads one line. It turns off the echo of a terminal.
func readPassword(cmd *cobra.Command) (string, error) {
	var password string
	if in := cmd.InOrStdin(); in == os.Stdin && term.IsTerminal(int(os.Stdin.Fd())) {
		typed, err := typedPassword(cmd.Context(), int(os.Stdin.Fd()), cmd.ErrOrStderr())
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		password = typed
	} else {
		line, err := untilInterrupted(cmd.Context(), func() (string, error) {
			return bufio.NewReader(in).ReadString('\n')
		})
		if err != nil && line == "" {
			return "", fmt.Errorf("read password from standard input: %w", err)
		}
		password = strings.TrimRight(line, "\r\n")
	}
	if password == "" {
		return "", errors.New("read password: it is empty")
	}
	return password, nil
}

// typedPassword asks for a password on a terminal, and turns off its echo meanwhile.
func typedPassword(ctx context.Context, terminal int, prompt io.Writer) (string, error) {
	before, err := term.GetState(terminal)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", err
	}
	fmt.Fprint(prompt, "Password: ")
	typed, err := untilInterrupted(ctx, func() ([]byte, error) {
		return term.ReadPassword(terminal)
	})
	fmt.Fprintln(prompt)
	if err != nil {
		return "", errors.Join(err, term.Restore(terminal, before))
	}
	return string(typed), nil
}
