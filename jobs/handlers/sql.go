package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/namedargs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// SQLParams are the params of a sql job: either Statement, with its Args, or
// Statements.
type SQLParams struct {
	Statement  string   `json:"statement"`
	Statements []string `json:"statements"`
	Args       Args     `json:"args"` // of Statement, by position
	// ShareTransaction permits the store to execute the statements in one transaction with those
	// of other runs. It is for short statements that change no settings. Only PostgreSQL does this,
	// and only for jobs without another database.
	ShareTransaction bool `json:"share_transaction"`
	// Values are arguments of all statements, by name: a value "region" is @region. The facts of
	// the run are arguments too (see [Values]).
	Values Values `json:"values"`
}

// Args are the arguments of a statement: strings, whole numbers (int64), other numbers (float64),
// booleans and null.
type Args []any

// SQL returns the handler "sql". It runs its statements in one fenced transaction: either all of
// them take effect, or none. In the database of the store, the same transaction records the run as
// succeeded. If the job has another database, the store records that after the commit. The affected
// rows of each statement are the run's result: {"rows_affected": [3, 1]}.
func SQL() jobs.Registration { return jobs.Handle("sql", runSQL) }

// Validate returns the mistakes, at most 20 of them.
func (p SQLParams) Validate() error {
	var problems problemList
	switch {
	case p.Statement != "" && p.Statements != nil:
		problems.add("statements", "expected either statement or statements, found both")
	case p.Statement == "" && p.Statements == nil:
		problems.add("statement", "expected statement or statements, found neither")
	case p.Statements != nil && len(p.Statements) == 0:
		problems.add("statements", "expected at least one statement, found none")
	case p.Statement != "" && strings.TrimSpace(p.Statement) == "":
		problems.add("statement", "is blank")
	}
	for i, statement := range p.Statements {
		if strings.TrimSpace(statement) == "" {
			problems.add("statements", "number %d is blank", i+1)
		}
	}
	if p.Args != nil && p.Statements != nil {
		problems.add("args", "go with statement, not with statements")
	}
	p.checkSharing(&problems)
	p.Values.check(&problems)
	names := p.Values.names()
	p.checkArguments("statement", "", p.Statement, names, &problems)
	for i, statement := range p.Statements {
		p.checkArguments("statements", fmt.Sprintf("number %d: ", i+1), statement, names,
			&problems)
	}
	return problems.err()
}

// sharingWords begin the statements that can share a transaction. Others change settings, or take
// table locks that block all other users of the table.
var sharingWords = []string{"delete", "insert", "merge", "select", "update", "with"}

func (p SQLParams) checkSharing(problems *problemList) {
	if !p.ShareTransaction {
		return
	}
	for i, statement := range append([]string{p.Statement}, p.Statements...) {
		word := namedargs.FirstWord(statement)
		if word == "" || slices.Contains(sharingWords, word) {
			continue
		}
		place := "statement"
		if i > 0 {
			place = fmt.Sprintf("number %d", i)
		}
		problems.add("share_transaction", "%s begins with %s, expected %s", place,
			strings.ToUpper(word), strings.ToUpper(strings.Join(sharingWords, ", ")))
	}
}

// checkArguments adds the mistakes in the names of a statement's arguments. names are the names
// that an argument can have.
func (p SQLParams) checkArguments(key, place, statement string, names []string,
	problems *problemList) {
	for _, part := range namedargs.Split(statement) {
		switch known := p.Values.has(part.Name); {
		case part.Argument() && !known:
			problems.add(key, "%s%s", place, &unknownName{"argument @" + part.Name, part.Name,
				names})
		case part.AfterOperator && known:
			problems.add(key, "%sfound @%s directly after an operator; write a space before the @",
				place, part.Name)
		}
	}
}

func (p SQLParams) list(named map[string]storage.NamedArg) []storage.Statement {
	if p.Statement != "" {
		return []storage.Statement{{SQL: p.Statement, Args: p.Args, Named: named}}
	}
	list := make([]storage.Statement, len(p.Statements))
	for i, statement := range p.Statements {
		list[i] = storage.Statement{SQL: statement, Named: named}
	}
	return list
}

// named returns the arguments with names. It reads the previous scheduled time only if a statement
// uses it.
func (p SQLParams) named(ctx context.Context, run *jobs.Run) (map[string]storage.NamedArg, error) {
	used := false
	for _, statement := range append([]string{p.Statement}, p.Statements...) {
		for _, part := range namedargs.Split(statement) {
			used = used || part.Argument() && part.Name == previousScheduledAt
		}
	}
	facts, err := factsOf(ctx, run, used)
	if err != nil {
		return nil, err
	}
	named := make(map[string]storage.NamedArg, len(facts)+len(p.Values))
	for name, value := range facts {
		named[name] = storage.NamedArg{Value: value, Type: factTypes[name]}
	}
	for name, value := range p.Values {
		named[name] = storage.NamedArg{Value: value}
	}
	return named, nil
}

func runSQL(ctx context.Context, run *jobs.Run, p SQLParams) error {
	store := run.Internal(attempt.NewKey()).Store
	if store == nil { // a Run of jobs.NewRun
		return errors.New("sql: the run has no store")
	}
	named, err := p.named(ctx, run)
	if err != nil {
		return fmt.Errorf("sql: %w", withCause(ctx, err))
	}
	rows, err := store.RunStatements(ctx, run,
		storage.Script{Statements: p.list(named), Share: p.ShareTransaction})
	if err != nil {
		return fmt.Errorf("sql: %w", withCause(ctx, err))
	}
	run.Log().Debug().Ints64("rows", rows).Msg("statements committed")
	return nil
}

// UnmarshalJSON parses whole numbers as int64, because a float64 would change large keys.
func (a *Args) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var values []any
	if err := decoder.Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return errors.New("expected a list")
	}
	for i, value := range values {
		converted, err := argument(value)
		if err != nil {
			return fmt.Errorf("number %d: %w", i+1, err)
		}
		values[i] = converted
	}
	*a = values
	return nil
}

func argument(value any) (any, error) {
	switch value := value.(type) {
	case nil, bool, string:
		return value, nil
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole, nil
		}
		if number, err := value.Float64(); err == nil &&
			strings.ContainsAny(value.String(), ".eE") {
			return number, nil
		}
		return nil, fmt.Errorf("%s does not fit 64 bits: write it as a text", value)
	default:
		return nil, errors.New("expected a text, a number, true, false or null")
	}
}
