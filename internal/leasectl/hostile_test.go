package leasectl

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/doctor"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// forged would be a line of doctor, with a command to run, if what is in front of it ended the line.
const forged = "\nERROR J1 1 job claimed by a gone session      run: rm -rf /\n"

// obeyed tells whether a terminal obeys or hides a rune; lines end by \n alone.
func obeyed(r rune) bool {
	return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// nastyText is in every text of what putHostile puts.
const nastyText = "a\x1b]0;owned\x07b\u009b31mc\u202ed\u200be\u2028f" + forged

// jsonText is it in a record.
const jsonText = `a\u001b]0;owned\u0007b\u009b31mc\u202ed\u200be\u2028f\nERROR J1 1 job claimed by a gone session      run: rm -rf /\n`

// putHostile puts what somebody may put who can write to etcd. All of it is as the keyspace would have it, but for what
// no program would take.
func putHostile(r *doctorRig) {
	r.Helper()
	granted, err := r.client.Grant(r.Context(), 600)
	if err != nil {
		r.Fatal(err)
	}
	leased := clientv3.WithLease(granted.ID)
	const sid = "w.0000000000000001"
	r.put(r.keys.Session(sid), `{"w":"8888888888888888","identity":"`+jsonText+`","host":"`+jsonText+`","pid":1}`, leased)
	q := r.queue("mail")
	r.put(q.Config(), `{"w":"8888888888888888","paused":true,"mode":"claim","actor":"`+jsonText+`","reason":"`+jsonText+`","at":"2020-01-01T00:00:00Z"}`)
	r.put(q.Worker(sid), `{"w":"8888888888888888","kinds":["`+jsonText+`"],"concurrency":1}`, leased)
	attempts := `,"attempts":[{"attempt":1,"owner":"` + jsonText + `","token":"5","claimed_at":"2020-01-01T00:00:00Z","ended_at":"2020-01-01T00:00:01Z","outcome":"failed","error":"` + jsonText + `","actor":"` + jsonText + `","reason":"` + jsonText + `"}],"attempts_total":1`
	more := `,"kind":"` + jsonText + `","labels":{"` + jsonText + `":"` + jsonText + `"},"trace":{"` + jsonText + `":"` + jsonText + `"},"error":"` + jsonText + `"` + attempts
	for _, id := range []string{"plain", "zw\u200bid", "rtl\u202eid", "sp ace"} {
		r.put(q.Job(id), record(id, more))
		r.put(q.Refused(id), `{"verb":"`+jsonText+`","owner":"`+jsonText+`","token":"5","at":"2020-01-01T00:00:00Z"}`, leased)
	}
	r.put(q.Dead("buried"), record("buried", more+`,"state":"dead","finished_at":"2020-01-01T00:00:00Z"`))
	r.put(q.Job("claimed"), record("claimed", more+`,"owner":"`+jsonText+`","owner_rev":"5","claimed_at":"2020-01-01T00:00:00Z"`))
	r.put(q.Dead("garbage"+forged), nastyText)
	r.put(q.Job("garbage"+forged), nastyText)
	r.put(q.Job("readable"+forged), record("readable"+forged, more))
	r.put(q.Job("broken"), nastyText)
	r.put(q.Payload("broken\x1b[2J"), "x")
	r.put(r.queue("other"+forged).Config(), nastyText)
	r.put(r.queue("my mail").Config(), nastyText)
	for _, dir := range []string{"locks/%s/holder", "elections/%s/leader", "semaphores/%s/slots/0"} {
		for _, name := range []string{"a%0AERROR%20x", "a%1B%5B2J", "a%E2%80%AEb", "my%20own"} {
			r.put(r.keys.Root()+fmt.Sprintf(dir, name), `{"w":"8888888888888888","owner":"`+jsonText+`","owner_rev":"5","since":"2020-01-01T00:00:00Z","by":"`+jsonText+`","reason":"`+jsonText+`"}`)
		}
	}
	r.put(r.keys.Root()+"foreign"+nastyText, nastyText)
	r.put(r.keys.Root()+"foreign      run: rm -rf /", nastyText)
}

// Whatever anybody puts into etcd: no output of any verb makes a terminal do something, hides something, or begins a line
// of its own.
func TestNothingInEtcdIsObeyed(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	resp, err := r.client.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprint(resp.Header.Revision + 1)
	putHostile(r)
	var runs [][]string
	for _, format := range output.ListFormats {
		for _, args := range [][]string{
			{"jobs", "ls"}, {"jobs", "ls", "mail"}, {"queues", "ls"}, {"workers", "ls"}, {"locks", "ls"}, {"elections", "ls"}, {"semaphores", "ls"}, {"leases", "ls"},
			{"jobs", "history", "mail/zw%E2%80%8Bid"}, {"jobs", "history", "mail/plain"}, {"jobs", "get", "mail/rtl\u202eid"}, {"locks", "get", "my own"},
			{"elections", "get", "election/my%20own"}, {"semaphores", "get", "my own"}, {"semaphores", "get", "semaphore/my%20own/0"}, {"queues", "get", "mail"}, {"workers", "get", "w.0000000000000001"},
		} {
			runs = append(runs, append(args, "-o", format))
		}
		if format != output.YAML && format != output.JSON {
			runs = append(runs, []string{"jobs", "watch", "mail/buried", "-o", format})
			runs = append(runs, []string{"events", "--since-rev", first, "--limit", "12", "-o", format})
		}
	}
	for _, format := range doctor.Formats {
		runs = append(runs, []string{"doctor", "--window", "50ms", "--format", format})
	}
	for _, format := range output.DescribeFormats {
		runs = append(runs, []string{"status", "-o", format}, []string{"jobs", "describe", "mail/plain", "-o", format}, []string{"jobs", "describe", "mail/buried", "-o", format},
			[]string{"queues", "describe", "mail", "-o", format}, []string{"workers", "describe", "w.0000000000000001", "-o", format})
	}
	runs = append(runs, []string{"jobs", "result", "mail/buried"}, []string{"jobs", "wait", "mail/buried"}, []string{"semaphores", "release", "my own/0", "--force", "--dry-run"})
	runs = append(runs, []string{"top", "--once"}, []string{"doctor", "--window", "50ms", "--fix", "--dry-run"}, []string{"queues", "purge", "mail", "--dry-run"},
		[]string{"jobs", "cancel", "--queue", "mail", "--all", "--dry-run"}, []string{"jobs", "cancel", "mail/sp%20ace", "--dry-run"}, []string{"__complete", "jobs", "get", "mail/"},
		[]string{"__complete", "queues", "get", ""}, []string{"__complete", "locks", "get", ""})
	for _, args := range runs {
		out, errOut, code := r.leasectl(args...)
		if code == exit.Usage && args[len(args)-1] != "nagios" {
			t.Errorf("%q: exit code %d: %s", args, code, errOut)
		}
		for _, text := range []string{out, errOut} {
			if i := strings.IndexFunc(text, obeyed); i >= 0 {
				t.Errorf("%q: %q is obeyed, in\n%q", args, text[i:min(len(text), i+4)], text[max(0, i-60):min(len(text), i+60)])
			}
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "ERROR J1 1 job claimed by a gone session      run") {
					t.Errorf("%q: a forged line in\n%s", args, text)
				}
			}
		}
	}
}

// Keys of names that no program takes hold up no list and no repair of others, and doctor removes them.
func TestNamesThatNobodyCanUse(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	q := r.open("mail")
	for _, id := range []string{"a", "b"} {
		if _, err := q.Enqueue(t.Context(), workqueue.Params{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 201)
	mail, root := r.queue("mail"), r.keys.Root()
	bad := map[string]string{
		root + "locks/x%0Ay/holder": "{}", root + "elections/x%1By/leader": "{}", root + "semaphores/s%0A/slots/0": "{}",
		mail.Job("c\x1b"): record("c\x1b", ""), mail.Dead("c\nd"): record("c\nd", `,"state":"dead"`), mail.Job("not-utf8\xff"): "garbage", mail.Dead(long): record(long, ""),
		mail.Payload("p\x00"): "x", r.queue("q\x07").Config(): "{}", r.queue("q\x07").Job("x"): record("x", ""),
	}
	for key, value := range bad {
		r.put(key, value)
	}
	for _, args := range [][]string{{"status"}, {"locks", "ls"}, {"elections", "ls"}, {"queues", "ls"}, {"jobs", "ls"}, {"workers", "ls"}, {"leases", "ls"}, {"top", "--once"}} {
		if _, errOut, code := r.leasectl(args...); code != 0 {
			t.Errorf("%q: exit code %d\n%s", args, code, errOut)
		}
	}
	if _, errOut, _ := r.leasectl("locks", "ls"); !strings.Contains(errOut, "warning: lock/x%0Ay is left out: ") || !strings.Contains(errOut, "leasectl doctor --fix removes it") {
		t.Errorf("no warning: %s", errOut)
	}
	out, errOut, code := r.leasectl("queues", "purge", "mail", "--yes")
	if code != 0 || !strings.Contains(out, "purged (2 jobs deleted)") || !strings.Contains(errOut, "c%1B is left out") {
		t.Errorf("purge: exit code %d\n%s%s", code, out, errOut)
	}
	rep := r.report(exit.Doctor)
	var found []string
	for _, f := range rep.Findings {
		if f.Code == "K3" {
			found = append(found, f.Key)
		} else {
			t.Errorf("%s %s %s as well", f.Code, f.What, f.Subject)
		}
	}
	if len(found) != len(bad) {
		t.Errorf("found %q, want %d", found, len(bad))
	}
	r.doctor(0, "--fix", "--yes")
	for key := range bad {
		if r.exists(key) {
			t.Errorf("%q is still there", key)
		}
	}
}
