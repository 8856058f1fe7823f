package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Exit codes of the command "audit verify".
const (
	chainBroken  = 1
	notVerified  = 2
	maxKnownHead = 100
	// unsealedLimit is the default of --max-unsealed. Replicas seal every 5 s.
	unsealedLimit = time.Minute
)

// verifiedAudit is the JSON of the command "audit verify".
type verifiedAudit struct {
	// Matches says that no link contradicts the log. Entries that wait for their links do not.
	Matches        bool       `json:"matches"`
	Checked        int        `json:"checked"`
	Unsealed       int        `json:"unsealed"`
	OldestUnsealed *time.Time `json:"oldest_unsealed,omitempty"`
	Anchor         string     `json:"anchor,omitempty"`
	Head           string     `json:"head,omitempty"`
	Problem        string     `json:"problem,omitempty"`
	Seq            int64      `json:"seq,omitempty"`
	Entry          *uuid.UUID `json:"entry,omitempty"`
}

// auditVerifyCommand returns the command "audit verify".
func (c *commandLine) auditVerifyCommand() *cobra.Command {
	var heads []string
	var maxUnsealed time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the hash chain of the audit log",
		Long: `Check the hash chain of the audit log, and print its head. The command reports the
first entry that was changed or deleted after it was sealed, and entries that have
waited for their link for longer than --max-unsealed.

Note heads elsewhere, and give them to later checks with --known. Otherwise
somebody who can write all tables of the store can compute a new chain.

The exit code is 0 if the chain matches, 1 if the command found a problem, and 2 if
it could not check the chain.`,
		Example: `  scheduler audit verify --known 1234:9f86d0…:2026-11-01T00:00:00Z`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.verifyAudit(cmd, heads, maxUnsealed)
			if err == nil {
				err = c.printCheck(v)
			}
			if err != nil {
				return err
			}
			if v.Problem != "" {
				return &ExitError{Code: chainBroken}
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&heads, "known", nil,
		"`head` SEQ:HASH:TIME that an earlier check printed; can be repeated")
	cmd.Flags().DurationVar(&maxUnsealed, "max-unsealed", unsealedLimit,
		"maximum `age` of entries without a link; 0 means no limit")
	return failsWith(cmd, notVerified)
}

// verifyAudit checks the chain of the configured store.
func (c *commandLine) verifyAudit(cmd *cobra.Command,
	heads []string, maxUnsealed time.Duration) (v storage.ChainCheck, err error) {
	if maxUnsealed < 0 {
		return v, fmt.Errorf("--max-unsealed: expected 0 or more, found %v", maxUnsealed)
	}
	if len(heads) > maxKnownHead {
		return v, fmt.Errorf("--known: expected at most %d heads, found %d", maxKnownHead,
			len(heads))
	}
	known := make([]storage.KnownHead, len(heads))
	for i, text := range heads {
		if known[i], err = storage.ParseKnownHead(text); err != nil {
			return v, fmt.Errorf("--known: %w", err)
		}
	}
	err = c.withStore(cmd.Context(), func(config *configs.Config, store app.Storage) (err error) {
		v, err = storage.VerifyAudit(cmd.Context(), store, storage.ChainRules{Known: known,
			Keep: config.History.Keep, MaxUnsealed: maxUnsealed})
		if err == nil && (v.Problem == "" || v.Unattended) && v.Head.Seq == 0 &&
			v.Unsealed > 0 && !config.Audit.Chain {
			err = errors.New("no entry is sealed: set audit.chain in the configuration")
		}
		return err
	})
	return v, err
}

// printCheck writes the result as JSON or as a table.
func (c *commandLine) printCheck(v storage.ChainCheck) error {
	answer := verifiedAudit{Matches: v.Problem == "" || v.Unattended, Checked: v.Checked,
		Unsealed: v.Unsealed, OldestUnsealed: v.OldestUnsealed, Problem: v.Problem, Seq: v.Seq,
		Entry: v.ID}
	result := "DOES NOT MATCH"
	if answer.Matches {
		result = "matches"
	}
	rows := [][]string{{"chain", result}}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if v.Problem != "" {
		add("problem", v.Problem)
		if v.Seq > 0 {
			add("link", fmt.Sprint(v.Seq))
		}
		if v.ID != nil {
			add("entry", v.ID.String())
		}
	}
	add("checked", fmt.Sprint(v.Checked))
	add("unsealed", fmt.Sprint(v.Unsealed))
	if v.OldestUnsealed != nil {
		add("oldest unsealed", clock(v.OldestUnsealed))
	}
	if v.Anchor.Seq > 0 {
		answer.Anchor = v.Anchor.String()
		add("anchor", answer.Anchor)
	}
	if v.Head.Seq > 0 {
		answer.Head = v.KnownHead().String()
		add("head", answer.Head)
	}
	return c.print(answer, "FIELD\tVALUE", rows)
}
