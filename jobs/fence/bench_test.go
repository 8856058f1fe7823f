package fence

import (
	"database/sql"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
)

// BenchmarkPass measures a transaction that writes nothing: without a fence, and with the fence of
// one table.
func BenchmarkPass(b *testing.B) {
	for name, open := range map[string]func(t testing.TB) *target{
		"postgres": newPostgres, "mariadb": newMariaDB} {
		on := open(b)
		b.Run(name+"/plain", func(b *testing.B) {
			for b.Loop() {
				tx := on.begin(b)
				if _, err := tx.ExecContext(b.Context(), "DELETE FROM log"); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/fenced", func(b *testing.B) {
			token := jobs.Token(1)
			for b.Loop() {
				token++
				if err := DoSQL(b.Context(), newRun(clusterOf(b), token, "public/orders"), on.db,
					on.dialect, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(b.Context(), "DELETE FROM log")
						return err
					}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
