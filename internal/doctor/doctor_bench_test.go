package doctor_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/workqueue"
)

// BenchmarkRun examines a root with 100,000 jobs, some of them with a payload beside.
func BenchmarkRun(b *testing.B) {
	client := etcdtest.Shared(b).Client(b)
	root := etcdtest.Root(b)
	q, err := workqueue.Open(b.Context(), client, workqueue.Config{Queue: "mail", Root: root})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	const jobs = 100_000
	for from := 0; from < jobs; from += 10_000 {
		items := make([]workqueue.Params, 10_000)
		for i := range items {
			items[i] = workqueue.Params{ID: fmt.Sprint(from + i), Payload: make([]byte, 100), Labels: map[string]string{"tenant": "42"}}
			if i%20 == 0 {
				items[i].Payload = make([]byte, 2000)
			}
		}
		results, err := q.EnqueueBatch(b.Context(), items)
		if err != nil || results[0].Err != nil {
			b.Fatal(err, results[0].Err)
		}
	}
	spent := processTime(b)
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		e, err := doctor.Run(ctx, client, doctor.Options{Root: root, Window: time.Millisecond})
		cancel()
		if err != nil {
			b.Fatal(err)
		}
		if n := len(e.Report.Findings); n != 1 || e.Report.Findings[0].Code != "Q1" {
			b.Fatalf("%d findings", n)
		}
		_ = e.Close()
	}
	// On a busy machine this says more than the clock; etcd's share is in it.
	b.ReportMetric((processTime(b)-spent).Seconds()/float64(b.N), "cpu-s/op")
}

func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
