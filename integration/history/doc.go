// Package history proves, after a run, that a queue kept its promises. It records
// what every client was told, watches what etcd really did, and compares the two.
//
//	rec := history.NewRecorder("worker-1")            // in each process; Open appends to a file
//	w, err := history.StartWitness(ctx, client, history.WitnessConfig{Root: root})
//	q := rec.Queue("producer", queue)                 // a queue whose calls are recorded
//	worker, err := workqueue.NewWorker(queue, rec.Handler(handler), workqueue.WorkerConfig{Hooks: rec.Hooks(workqueue.Hooks{})})
//	... the run, with faults ...
//	final, err := history.ReadFinal(ctx, client, root) // when all calls have returned
//	err = w.WaitSeen(ctx, final.Revision)
//	err = w.Close(ctx)
//	run := history.Run{Root: root, Log: rec.Log(), Events: w.Events(), Final: final}
//	report := history.Check(run, history.Bounds{Reclaim: 20 * time.Second, Overlap: 300 * time.Millisecond})
//	err = report.Err()
//	err = history.CheckLinearizable(run, history.LinearConfig{Timeout: time.Minute, Dir: t.TempDir()})
//
// # Clock
//
// All times are readings of one clock, [Now]: CLOCK_MONOTONIC, which all processes of
// one host share, so that files written by several processes merge into one [Log]. It
// stands still for nobody but a suspended machine, and no clock fault moves it.
//
// # Faults
//
// Whoever makes faults tells of them by [Recorder.Mark], so that a killed process is not
// blamed for calls that never returned, nor a paused one for handlers that overlap; and
// by [Reached.Hit], so that a run that came by none of them does not count. Whoever
// compacts keeps to [Witness.Compactable].
//
// # Rest
//
// That nothing wrong happened is half of it. [Rest] tells what is not as it must be once
// faults have healed: a claim that its process does not run, an entry without its claim,
// an election without a leader who runs. Whoever asks again and again learns when a run
// has come to rest.
//
// # What it cannot see
//
// The witness has the order of events and when it saw them, not when etcd applied
// them. Goroutines that stay behind are goleak's to find.
package history
