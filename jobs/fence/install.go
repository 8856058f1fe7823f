package fence

import (
	"context"
	"fmt"
)

// Install creates the tables, if they are missing. It needs the permission to create a schema (in
// MariaDB and MySQL, a database). Jobs need the permissions to use that schema, and to select,
// insert, update and delete in its tables.
func Install(ctx context.Context, tx Tx) error {
	for _, statement := range tx.dialect.install {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("install fence: %w", err)
		}
	}
	return nil
}

// Probe returns an error unless the tables are there and readable.
func Probe(ctx context.Context, tx Tx) error {
	for _, table := range []string{"tokens", "readers", "commits"} {
		var none int64
		if _, err := tx.one(ctx, []any{&none}, "SELECT count(*) FROM holdfast_fence."+table+
			" WHERE 1 = 0"); err != nil {
			return fmt.Errorf("read the tables of the fence: %w", err)
		}
	}
	return nil
}
