package workqueue_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/workqueue"
)

func ids(t *testing.T, q *workqueue.Queue, f workqueue.Filter) []string {
	t.Helper()
	found := []string{}
	for j, err := range q.List(bounded(t), f) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, j.ID)
	}
	return found
}

func TestListSelects(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	blue := map[string]string{"color": "blue", "size": ""}
	d.dead(workqueue.Params{ID: "dead", Kind: "k"})
	d.done(workqueue.Params{ID: "done", Labels: blue}, "r")
	d.add(workqueue.Params{ID: "failed", Priority: 9})
	if err := d.claim().Fail(bounded(t), workqueue.RetryAfter(time.Hour, nil)); err != nil {
		t.Fatal(err)
	}
	d.add(workqueue.Params{ID: "claimed", Kind: "k"})
	d.claim()
	d.add(workqueue.Params{ID: "cancelled"})
	if _, err := d.q.Cancel(bounded(t), "cancelled", workqueue.By{}); err != nil {
		t.Fatal(err)
	}
	d.add(workqueue.Params{ID: "scheduled", RunAt: time.Now().Add(time.Hour)})
	d.add(workqueue.Params{ID: "ready", Labels: blue, Payload: []byte(strings.Repeat("p", 2000))})
	for _, tc := range []struct {
		f    workqueue.Filter
		want []string
	}{
		{workqueue.Filter{}, []string{"failed", "claimed", "scheduled", "ready", "dead", "cancelled", "done"}},
		{workqueue.Filter{States: []workqueue.State{workqueue.StateDead}}, []string{"dead"}},
		{workqueue.Filter{States: []workqueue.State{workqueue.StateRetry, workqueue.StateCancelled}}, []string{"failed", "cancelled"}},
		{workqueue.Filter{States: []workqueue.State{workqueue.StateClaimed}}, []string{"claimed"}},
		{workqueue.Filter{States: []workqueue.State{workqueue.StateOrphan}}, []string{}},
		{workqueue.Filter{Kind: "k"}, []string{"claimed", "dead"}},
		{workqueue.Filter{Labels: map[string]string{"color": "blue"}}, []string{"ready", "done"}},
		{workqueue.Filter{Labels: map[string]string{"size": ""}}, []string{"ready", "done"}},
		{workqueue.Filter{Labels: map[string]string{"shape": ""}}, []string{}},
	} {
		if got := ids(t, d.q, tc.f); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %q, want %q", tc.f, got, tc.want)
		}
	}
	for j := range d.q.List(bounded(t), workqueue.Filter{States: []workqueue.State{workqueue.StateReady}}) {
		if j.Payload != nil || j.PayloadSize != 2000 {
			t.Errorf("listed with a payload of %d (%d)", len(j.Payload), j.PayloadSize)
		}
	}
	for range d.q.List(bounded(t), workqueue.Filter{}) {
		break // whoever has enough may stop
	}
	// Without its session the owner's job is an orphan.
	if _, err := d.client.Revoke(bounded(t), d.s.Lease()); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, d.q, workqueue.Filter{States: []workqueue.State{workqueue.StateOrphan}}); !slices.Equal(got, []string{"claimed"}) {
		t.Errorf("orphans: %q", got)
	}
}

func TestWaitReturnsEveryEnd(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	for id, tc := range map[string]struct {
		end  func(c *workqueue.Claim) error
		want workqueue.State
	}{
		"done":      {func(c *workqueue.Claim) error { return c.Complete(bounded(t), []byte("r")) }, workqueue.StateDone},
		"dead":      {func(c *workqueue.Claim) error { return c.Fail(bounded(t), workqueue.Permanent(nil)) }, workqueue.StateDead},
		"cancelled": {func(c *workqueue.Claim) error { return c.Fail(bounded(t), workqueue.Cancel(errors.New("no"))) }, workqueue.StateCancelled},
		"by others": {func(c *workqueue.Claim) error {
			_, err := d.q.Cancel(bounded(t), "by others", ann)
			return err
		}, workqueue.StateCancelled},
	} {
		d.add(workqueue.Params{ID: id})
		c := d.claim()
		ended := make(chan *workqueue.Job, 1)
		go func() { ended <- wait(t, d.q, id) }()
		if err := tc.end(c); err != nil {
			t.Fatal(err)
		}
		if j := receive(t, ended, id+" ends"); j.State != tc.want || j.ID != id {
			t.Errorf("%s: got %+v", id, j)
		}
		if j := wait(t, d.q, id); j.State != tc.want { // over already
			t.Errorf("%s: got %+v", id, j)
		}
	}
	if _, err := d.q.Wait(bounded(t), "nobody"); !errors.Is(err, workqueue.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestWaitersGoWithTheirContextAndTheQueue(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	d.add(workqueue.Params{ID: "x", RunAt: time.Now().Add(time.Hour)})
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	errs := make(chan error, 2)
	go func() {
		_, err := d.q.Wait(ctx, "x")
		errs <- err
	}()
	go func() { errs <- d.q.WaitEmpty(ctx) }()
	cancel(why)
	for range 2 {
		if err := receive(t, errs, "they end with ctx"); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	}
	other := openAt(t, d.client, workqueue.Config{Root: d.root})
	go func() {
		_, err := other.Wait(t.Context(), "x")
		errs <- err
	}()
	go func() { errs <- other.WaitEmpty(t.Context()) }()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := receive(t, errs, "they end with the queue"); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWaitEmpty(t *testing.T) {
	d := newDesk(t, workqueue.Config{})
	if err := d.q.WaitEmpty(bounded(t)); err != nil {
		t.Fatal(err)
	}
	d.dead(workqueue.Params{ID: "dead"}) // is no live job
	d.add(workqueue.Params{ID: "later", RunAt: time.Now().Add(time.Hour)})
	d.add(workqueue.Params{ID: "now"})
	c := d.claim()
	empty := make(chan error, 1)
	go func() { empty <- d.q.WaitEmpty(bounded(t)) }()
	if err := c.Complete(bounded(t), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-empty:
		t.Fatalf("a scheduled job is left: %v", err)
	default:
	}
	if _, err := d.q.Cancel(bounded(t), "later", ann); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, empty, "the queue is empty"); err != nil {
		t.Error(err)
	}
}

// Whatever is wrong with a call's input, the error says which field, which value
// and what would do, and nothing is written.
func TestBadInputIsRefusedBeforeItIsWritten(t *testing.T) {
	d := newDesk(t, workqueue.Config{MaxPayload: 100})
	d.add(workqueue.Params{ID: "x"})
	d.claim()
	long := strings.Repeat("x", 300)
	many := map[string]string{}
	for i := range 33 {
		many[itoa(i)] = ""
	}
	enqueueing := func(p workqueue.Params) func() error {
		return func() error {
			_, err := d.q.Enqueue(bounded(t), p)
			_, _, _, opsErr := d.q.EnqueueOps(p)
			results, _ := d.q.EnqueueBatch(bounded(t), []workqueue.Params{p})
			if opsErr == nil || results[0].Err == nil {
				return nil
			}
			return err
		}
	}
	opening := func(cfg workqueue.Config) func() error {
		return func() error {
			if cfg.Root == "" {
				cfg.Root = d.root
			}
			q, err := workqueue.Open(bounded(t), d.client, cfg)
			if err == nil {
				_ = q.Close()
			}
			return err
		}
	}
	working := func(cfg workqueue.WorkerConfig) func() error {
		return func() error {
			_, err := workqueue.NewWorker(d.q, workqueue.HandlerFunc(func(context.Context, *workqueue.Claim) ([]byte, error) { return nil, nil }), cfg)
			return err
		}
	}
	before := d.revision()
	for name, tc := range map[string]struct {
		act   func() error
		field string
	}{
		"id too long":            {enqueueing(workqueue.Params{ID: long}), "id"},
		"id with a newline":      {enqueueing(workqueue.Params{ID: "a\nb"}), "id"},
		"id no UTF-8":            {enqueueing(workqueue.Params{ID: "\xff"}), "id"},
		"kind too long":          {enqueueing(workqueue.Params{Kind: long}), "kind"},
		"payload too large":      {enqueueing(workqueue.Params{Payload: make([]byte, 101)}), "payload"},
		"too many labels":        {enqueueing(workqueue.Params{Labels: many}), "labels"},
		"label without a name":   {enqueueing(workqueue.Params{Labels: map[string]string{"": "x"}}), "labels"},
		"label too long":         {enqueueing(workqueue.Params{Labels: map[string]string{"a": long}}), "labels.a"},
		"label no UTF-8":         {enqueueing(workqueue.Params{Labels: map[string]string{"a": "\xff"}}), "labels.a"},
		"trace too long":         {enqueueing(workqueue.Params{Trace: map[string]string{"a": long}}), "trace.a"},
		"negative attempts":      {enqueueing(workqueue.Params{MaxAttempts: -1}), "max attempts"},
		"negative losses":        {enqueueing(workqueue.Params{MaxLosses: -1}), "max losses"},
		"negative timeout":       {enqueueing(workqueue.Params{Timeout: -1}), "timeout"},
		"endless timeout":        {enqueueing(workqueue.Params{Timeout: math.MaxInt64}), "timeout"},
		"too early":              {enqueueing(workqueue.Params{RunAt: time.Unix(-1, 0)}), "run at"},
		"too late":               {enqueueing(workqueue.Params{RunAt: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))}), "run at"},
		"unknown dedup":          {enqueueing(workqueue.Params{Dedup: 7}), "dedup"},
		"endless attempts":       {enqueueing(workqueue.Params{MaxAttempts: math.MaxInt}), "max attempts"},
		"endless losses":         {enqueueing(workqueue.Params{MaxLosses: math.MaxInt}), "max losses"},
		"trace with NUL":         {enqueueing(workqueue.Params{Trace: map[string]string{"a": "x\x00"}}), "trace.a"},
		"trace name with NUL":    {enqueueing(workqueue.Params{Trace: map[string]string{"a\x00": "x"}}), "trace"},
		"label with NUL":         {enqueueing(workqueue.Params{Labels: map[string]string{"a": "\x00x"}}), "labels.a"},
		"kind with NUL":          {enqueueing(workqueue.Params{Kind: "k\x00"}), "kind"},
		"endless retention":      {opening(workqueue.Config{Queue: "q", Retention: math.MaxInt64}), "retention"},
		"endless quiet":          {opening(workqueue.Config{Queue: "q", Quiet: math.MaxInt64}), "quiet"},
		"endless scan pause":     {opening(workqueue.Config{Queue: "q", ScanEvery: 25 * time.Hour}), "scan every"},
		"endless backoff":        {opening(workqueue.Config{Queue: "q", Backoff: workqueue.Backoff{Initial: math.MaxInt64}}), "backoff initial"},
		"endless backoff in all": {opening(workqueue.Config{Queue: "q", Backoff: workqueue.Backoff{Max: math.MaxInt64}}), "backoff max"},
		"negative grace":         {working(workqueue.WorkerConfig{Grace: -1}), "grace"},
		"negative attempt":       {working(workqueue.WorkerConfig{Timeout: -1}), "timeout"},
		"session ttl too long":   {working(workqueue.WorkerConfig{SessionTTL: 25 * time.Hour}), "session ttl"},
		"session ttl too short":  {working(workqueue.WorkerConfig{SessionTTL: 1}), "session ttl"},
		"endless leadership": {func() error {
			_, err := workqueue.NewDispatcher(d.q, workqueue.DispatcherConfig{TTL: math.MaxInt64})
			return err
		}, "ttl"},
		"get without an id":    {func() error { _, err := d.q.Get(bounded(t), ""); return err }, "id"},
		"wait for a bad id":    {func() error { _, err := d.q.Wait(bounded(t), long); return err }, "id"},
		"cancel without an id": {func() error { _, err := d.q.Cancel(bounded(t), "", ann); return err }, "id"},
		"reason too long":      {func() error { _, err := d.q.Cancel(bounded(t), "x", workqueue.By{Reason: long}); return err }, "reason"},
		"actor no UTF-8": {func() error {
			_, err := admin.BreakClaim(bounded(t), d.q, "x", workqueue.By{Actor: "\xff"})
			return err
		}, "actor"},
		"pause, reason too long":  {func() error { return d.q.Pause(bounded(t), workqueue.By{Reason: long}) }, "reason"},
		"resume, actor too long":  {func() error { return d.q.Resume(bounded(t), workqueue.By{Actor: long}) }, "actor"},
		"an unknown mode":         {func() error { return d.q.SetMode(bounded(t), "fast", ann) }, "mode"},
		"list an unknown state":   {func() error { return firstError(d.q, workqueue.Filter{States: []workqueue.State{"rady"}}) }, "state"},
		"queue without a name":    {opening(workqueue.Config{}), "queue"},
		"queue name too long":     {opening(workqueue.Config{Queue: long}), "queue"},
		"identity too long":       {opening(workqueue.Config{Queue: "q", Identity: long}), "identity"},
		"root without a name":     {opening(workqueue.Config{Queue: "q", Root: "//"}), "root"},
		"payload limit too large": {opening(workqueue.Config{Queue: "q", MaxPayload: 1 << 20}), "max payload"},
		"retention too short":     {opening(workqueue.Config{Queue: "q", Retention: 1}), "retention"},
		"negative retained jobs":  {opening(workqueue.Config{Queue: "q", RetainJobs: -1}), "retain jobs"},
		"negative retained bytes": {opening(workqueue.Config{Queue: "q", RetainBytes: -1}), "retain bytes"},
		"negative quiet":          {opening(workqueue.Config{Queue: "q", Quiet: -1}), "quiet"},
		"quiet too short":         {opening(workqueue.Config{Queue: "q", Quiet: 1}), "quiet"},
		"negative scan pause":     {opening(workqueue.Config{Queue: "q", ScanEvery: -1}), "scan every"},
		"scan pause too short":    {opening(workqueue.Config{Queue: "q", ScanEvery: 1}), "scan every"},
	} {
		err := tc.act()
		var input *coord.InputError
		if !errors.As(err, &input) || !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if input.Field != tc.field || input.Reason == "" || !strings.Contains(err.Error(), input.Reason) || len(err.Error()) > 500 {
			t.Errorf("%s: %q is about %q, want %q", name, err, input.Field, tc.field)
		}
	}
	if after := d.revision(); after != before {
		t.Errorf("something was written: revision %d, then %d", before, after)
	}
}

func firstError(q *workqueue.Queue, f workqueue.Filter) error {
	for _, err := range q.List(context.Background(), f) {
		return err
	}
	return nil
}
