// River, with the settings of its own benchmark (`river bench`): 2,000 workers, a fetch at most every 2 ms.

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	connections  = 16
	filledAtOnce = 5_000
)

type Noop struct{}

func (Noop) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[Noop]
	witness *witness
}

func (w *noopWorker) Work(context.Context, *river.Job[Noop]) error {
	w.witness.called()
	return nil
}

// The same as witness.py.
type witness struct {
	sync.Mutex
	file  *os.File
	step  int
	calls int
}

func (w *witness) called() {
	w.Lock()
	defer w.Unlock()
	w.calls++
	if w.calls%w.step == 0 || w.calls == 1 {
		w.note()
	}
}

func (w *witness) note() {
	must(fmt.Fprintf(w.file, "%d %d %d\n", os.Getpid(), w.calls, w.calls))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func fill(ctx context.Context, pool *pgxpool.Pool, jobs int) {
	driver := riverpgxv5.New(pool)
	migrator := must(rivermigrate.New(driver, nil))
	must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
	client := must(river.NewClient(driver, &river.Config{}))
	for left := jobs; left > 0; {
		batch := make([]river.InsertManyParams, min(left, filledAtOnce))
		for at := range batch {
			batch[at].Args = Noop{}
		}
		must(client.InsertManyFast(ctx, batch))
		left -= len(batch)
	}
}

func work(ctx context.Context, pool *pgxpool.Pool) {
	seen := &witness{
		file: must(os.OpenFile(os.Getenv("PEER_WITNESS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)),
		step: must(strconv.Atoi(os.Getenv("PEER_STEP"))),
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{witness: seen})
	client := must(river.NewClient[pgx.Tx](riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2_000}},
		Workers:           workers,
	}))
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	<-asked
	if err := client.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	seen.note()
}

func main() {
	ctx := context.Background()
	config := must(pgxpool.ParseConfig(os.Getenv("PEER_STORE")))
	config.MaxConns = connections
	pool := must(pgxpool.NewWithConfig(ctx, config))
	defer pool.Close()
	if os.Args[1] == "fill" {
		fill(ctx, pool, must(strconv.Atoi(os.Args[2])))
	} else {
		work(ctx, pool)
	}
}
