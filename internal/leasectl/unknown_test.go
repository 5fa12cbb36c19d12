package leasectl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/workqueue"
)

// absurd is an age that began with the calendar.
var absurd = regexp.MustCompile(`[0-9]{5,}(d|h)`)

// Of records that somebody broke, not even the times may be known: they are shown as unknown, and history tells the rest.
func TestTimesThatAreNotKnownAreShownAsUnknown(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	if _, err := r.open("mail").Enqueue(t.Context(), workqueue.Params{ID: "broken"}); err != nil {
		t.Fatal(err)
	}
	keys := r.queue("mail")
	r.put(keys.Job("broken"), "garbage")
	r.doctor(0, "--fix", "--yes")
	bare := `{"w":"8888888888888888","v":1,"id":"ID","born":"b"`
	r.put(keys.Job("timeless"), strings.Replace(bare, "ID", "timeless", 1)+"}")
	r.put(keys.Job("owned"), strings.Replace(bare, "ID", "owned", 1)+`,"attempt":1,"owner":"w.0000000000000009","owner_rev":"5"}`)
	r.put(keys.Dead("dead"), strings.Replace(bare, "ID", "dead", 1)+`,"outcome":"dead","attempts":[{"attempt":1,"owner":"w.0000000000000009","outcome":"failed","error":"e"}],"attempts_total":1}`)
	r.put(keys.Done("done"), strings.Replace(bare, "ID", "done", 1)+`,"outcome":"completed"}`)
	r.put(keys.Refused("timeless"), `{"verb":"complete","owner":"w","token":"5"}`)
	r.put(r.keys.Root()+"elections/e/leader", `{"w":"8888888888888888","owner":"w.0000000000000009","owner_rev":"5"}`)
	for _, args := range [][]string{
		{"jobs", "ls", "-o", "wide"}, {"queues", "ls", "-o", "wide"}, {"queues", "describe", "mail"}, {"status"}, {"workers", "ls"}, {"elections", "ls"}, {"top", "--once"},
		{"doctor", "--window", "50ms"}, {"jobs", "history", "mail/broken"}, {"jobs", "history", "mail/dead"}, {"jobs", "history", "mail/done"}, {"jobs", "describe", "mail/broken"},
		{"jobs", "describe", "mail/timeless"}, {"jobs", "describe", "mail/owned"}, {"jobs", "describe", "mail/dead"}, {"jobs", "describe", "mail/done"}, {"events", "--since-rev", "2", "--limit", "3"},
	} {
		out, errOut, code := r.leasectl(args...)
		if code != 0 && args[0] != "doctor" {
			t.Errorf("%q: exit code %d\n%s", args, code, errOut)
		}
		if bad := absurd.FindString(out + errOut); bad != "" {
			t.Errorf("%q says %s:\n%s%s", args, bad, out, errOut)
		}
	}
	out, _, _ := r.leasectl("jobs", "history", "mail/broken")
	for _, want := range []string{" enqueued ", " dead ", "what could not be read is left out"} {
		if !strings.Contains(out, want) {
			t.Errorf("history does not say %q:\n%s", want, out)
		}
	}
	if out, _, _ := r.leasectl("jobs", "describe", "mail/timeless"); !strings.Contains(out, "created at an unknown time") {
		t.Errorf("got\n%s", out)
	}
}

// A trace of calls is one line in lists, the one that says what went wrong, and stands once in a description, as it is.
func TestAnErrorOfManyLines(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	const quoted = `Traceback (most recent call last):\n  File \"send.py\", line 3\n    send()\nValueError: no such user\n\n`
	attempt := `,"attempt":1,"failures":1,"attempts":[{"attempt":1,"owner":"w.0000000000000009","token":"5","claimed_at":"2020-01-01T00:00:00Z","ended_at":"2020-01-01T00:00:01Z","outcome":"failed","error":"` + quoted + `"}],"attempts_total":1`
	payload := strings.Repeat("x", 900)
	r.put(r.queue("mail").Dead("dead"), record("dead", attempt+`,"outcome":"dead","finished_at":"2020-01-01T00:00:01Z","error":"`+quoted+`"`))
	r.put(r.queue("mail").Job("waits"), record("waits", attempt+`,"run_at":"2999-01-01T00:00:00Z","payload":"`+payload+`"`))
	for _, id := range []string{"dead", "waits"} {
		out, errOut, _ := r.leasectl("jobs", "describe", "mail/"+id)
		if strings.Count(out, "Traceback") != 1 || !strings.Contains(out, "Error  ") || !strings.Contains(out, "\n            File \"send.py\", line 3\n              send()\n          ValueError: no such user\n") {
			t.Errorf("%s is described as\n%s%s", id, out, errOut)
		}
		out, _, _ = r.leasectl("jobs", "ls", "mail", "--columns", "id,error", "--no-headers", "--filter", "id:"+id)
		if strings.TrimSpace(out) != id+"  ValueError: no such user" {
			t.Errorf("%s is listed as %q", id, out)
		}
		out, _, _ = r.leasectl("jobs", "history", "mail/"+id)
		if strings.Contains(out, "Traceback") || !strings.Contains(out, "ValueError: no such user") {
			t.Errorf("the history of %s is\n%s", id, out)
		}
	}
	if out, _, _ := r.leasectl("jobs", "ls", "mail", "-o", "wide"); strings.Count(out, "ValueError: no such user") != 2 || !strings.Contains(out, "  ERROR  ") {
		t.Errorf("listed as\n%s", out)
	}
	if out, _, _ := r.leasectl("jobs", "ls", "mail", "-o", "json"); strings.Count(out, quoted) != 3 {
		t.Errorf("in JSON something is cut:\n%s", out)
	}
	// What goes to no terminal is not cut.
	if out, _, _ := r.leasectl("jobs", "describe", "mail/waits"); !strings.Contains(out, payload) {
		t.Errorf("the payload is cut:\n%s", out)
	}
}
