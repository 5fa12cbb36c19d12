package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/history"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// long is the duration from which on a run must have reached everything.
const long = 60 * time.Second

// wanted are the probes that the run must reach.
func (c *chaos) wanted() []string {
	want := []string{history.AmbiguousYes, history.SessionLost, "fault:kill", "fault:freeze"}
	if c.cfg.duration < long {
		return want
	}
	for _, w := range c.menu() {
		want = append(want, probeOf(w.Fault))
	}
	want = append(want, history.AmbiguousNo, history.Relist, history.LateRefused, history.AbandonedHandler, "operator:pause", "operator:switch-mode")
	if c.cfg.mode == "claim" {
		want = append(want, history.ReclaimRace, history.ClaimRace)
	}
	slices.Sort(want)
	return slices.Compact(want)
}

// log merges the records of all processes, killed ones included.
func (c *chaos) log() (*history.Log, error) {
	var files []string
	for _, p := range c.procs {
		p.mu.Lock()
		for _, log := range p.logs {
			if _, err := os.Stat(log); err == nil { // else it was killed before it began
				files = append(files, log)
			}
		}
		p.mu.Unlock()
	}
	log, err := history.ReadLog(files...)
	if err != nil {
		return nil, err
	}
	for _, w := range c.clients {
		log.Merge(w.rec.Log())
	}
	for _, rec := range c.leaders {
		log.Merge(rec.Log())
	}
	for _, g := range c.guests {
		log.Merge(g.rec.Log())
	}
	return log.Merge(c.rec.Log()), nil
}

// missing are the wanted probes that were not reached so far.
func (c *chaos) missing() []string {
	log, err := c.log()
	if err != nil {
		return []string{err.Error()}
	}
	return log.Missing(c.wanted()...)
}

// judge compares what happened with what was promised and what clients were told.
func (c *chaos) judge(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	final, err := history.ReadFinal(ctx, c.adminClient, chaosRoot, chaosEffects)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.witness.WaitSeen(ctx, final.Revision); err != nil {
		t.Fatal(err)
	}
	log, err := c.log()
	if err != nil {
		t.Fatal(err)
	}
	run := history.Run{Root: chaosRoot, Log: log, Events: c.witness.Events(), Final: final}
	if err := c.witness.Close(); err != nil {
		t.Errorf("the witness: %v", err)
	}
	report := history.Check(run, history.Bounds{Reclaim: 30 * time.Second, Overlap: time.Second, Return: 2 * time.Second})
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if err := history.CheckLinearizable(run, history.LinearConfig{Dir: c.dir}); err != nil {
		t.Error(err)
	}
	lost := lostJobs(log, final)
	if len(lost) > 0 {
		t.Errorf("%d jobs are lost: %v", len(lost), lost)
	}
	c.judgeCounter(t, run.Events)
	c.judgeOrder(t, run.Events)
	c.judgeWaits(t, run.Events)
	if err := c.rpcs.Err(); err != nil {
		t.Error(err)
	}
	if missing := log.Missing(c.wanted()...); len(missing) > 0 {
		t.Errorf("never reached: %v", missing)
	}
	if t.Failed() {
		c.keep(t, log)
	}
	t.Logf("summary: chaos %v: %d lost, %d accepted twice, %d accepted under a superseded token; %s", c.cfg,
		len(lost), broken(report, "I1"), broken(report, "I2"), c.summary(report.Stats, log))
}

// keep writes everything that was recorded to a file.
func (c *chaos) keep(t *testing.T, log *history.Log) {
	t.Helper()
	b, err := json.Marshal(log)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.dir, "log.json"), b, 0o644)
	}
	if err != nil {
		t.Errorf("keep the log: %v", err)
	}
}

// broken counts the violations of one invariant.
func broken(report history.Report, invariant string) (n int) {
	for _, v := range report.Violations {
		if v.Invariant == invariant {
			n++
		}
	}
	return n
}

// lostJobs are those that a client was told to exist and that are nowhere. It is the
// simplest possible check, beside all others; nothing expires within a run.
func lostJobs(log *history.Log, final *history.Final) (lost []string) {
	keys, err := keyspace.New(chaosRoot)
	if err != nil {
		return []string{err.Error()}
	}
	q := keys.Queue(chaosQueue)
	for _, op := range log.Ops {
		if op.Verb != history.Enqueue || op.Result != history.Applied {
			continue
		}
		places := 0
		for _, key := range []string{q.Job(op.ID), q.Done(op.ID), q.Dead(op.ID)} {
			if _, ok := final.KVs[key]; ok {
				places++
			}
		}
		if places != 1 {
			lost = append(lost, fmt.Sprintf("%s in %d places", op.ID, places))
		}
	}
	return lost
}

// summary is one line about what happened.
func (c *chaos) summary(s history.Stats, log *history.Log) string {
	injected, kinds := 0, 0
	var probes []string
	for _, name := range slices.Sorted(maps.Keys(log.Reached)) {
		n := log.Reached[name]
		if strings.HasPrefix(name, "fault:") {
			injected += n
			kinds++
			continue
		}
		probes = append(probes, fmt.Sprintf("%s=%d", name, n))
	}
	return fmt.Sprintf("%d jobs (%d done, %d dead, %d cancelled, %d live), %d calls, %d faults of %d kinds, %s, slowest reclaim %v; transitions %v",
		s.Jobs, s.Done, s.Dead, s.Cancelled, s.Live, len(log.Ops), injected, kinds, strings.Join(probes, " "), s.SlowestReclaim, s.Transitions)
}
