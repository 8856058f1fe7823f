// Command service is an HTTP service that has Holdfast inside. It has its own pool, mux, log and
// sign-in, and shares them:
//
//   - The jobs use a part of the service's connections (holdfast.WithPostgresPool).
//   - The admin page is in the service's mux at /holdfast/, behind the service's sign-in
//     (Replica.Admin).
//   - An order and the job that confirms it are one transaction (Replica.TriggerTx).
//   - Logs go to the service's slog.Logger, metrics to its Prometheus registry.
//
// It needs PostgreSQL, and uses memcached if there is one:
//
//	DATABASE_URL=postgres://localhost/shop MEMCACHED=127.0.0.1:11211 SERVICE_PASSWORD=secret \
//		go run ./examples/service -listen 127.0.0.1:8000
//
// Then open http://127.0.0.1:8000/holdfast/ and sign in under any name with the password.
package main
