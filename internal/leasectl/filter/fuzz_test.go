package filter

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// A filter that can be read selects what it says it may select: what it lets the reader
// leave out never matches. One that cannot be read says so as an error of usage.
func FuzzFilter(f *testing.F) {
	for _, text := range []string{
		"", "  ", "state:dead", "state:claimed,orphan -kind:send*", `id:"order,1*"`, `label."a b:c":"x y"`, "worker:w-*", "attempt:>3", "age:>1h", "running:<2d",
		"queue:mail queue:other", "-queue:mail", "error:timeout", `kind:"`, ":", "a:", "-", "--state:dead", "state:", `\`, `"\"`, `kind:\*`, "\xff:x", "kind:\xff*",
		"label.:x", "age:>", "age:>1e999h", "attempt:>99999999999999999999", "size:>=1,<5", "token:=7", "ended:>1d", "state:dead state:done", "id:a id:b", `""`, "kind:**,*",
	} {
		f.Add(text)
	}
	now := time.Now()
	jobs := []*workqueue.Job{filterJob(now), {}, {State: workqueue.StateDone, ID: "x", FinishedAt: now}, {State: workqueue.StateClaimed, Owner: "w", Queue: "q"}}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			if code, _ := exit.Explain(err); code != exit.Usage || strings.Contains(exit.Text(err), "\n") {
				t.Errorf("%q: code %d, %q", text, code, exit.Text(err))
			}
			return
		}
		for _, j := range jobs {
			if !parsed.Matches(j, now) {
				continue
			}
			if s := parsed.States(); len(s) > 0 && !slices.Contains(s, j.State) || parsed.Never() {
				t.Errorf("%q matches a job that is %s, and reads only those that are %v", text, j.State, s)
			}
			if q, ok := parsed.queues(); ok && !slices.Contains(q, j.Queue) {
				t.Errorf("%q matches a job of queue %q, and reads only %q", text, j.Queue, q)
			}
			if id, ok := parsed.ID(); ok && id != j.ID {
				t.Errorf("%q matches job %q, and reads only %q", text, j.ID, id)
			}
		}
		if len(parsed.terms) != 1 || strings.HasPrefix(strings.TrimSpace(text), "-") {
			return
		}
		opposite, err := Parse("-" + strings.TrimSpace(text))
		if err != nil {
			t.Fatalf("%q can be read, and its opposite cannot: %v", text, err)
		}
		for _, j := range jobs {
			if parsed.Matches(j, now) == opposite.Matches(j, now) {
				t.Errorf("%q and its opposite say the same of %+v", text, j)
			}
		}
	})
}
