package events

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// rec is a record as it lies under a key of a queue.
func rec(t *testing.T, keys keyspace.Keyspace, dir string, rev int64, fields map[string]any) *mvccpb.KeyValue {
	t.Helper()
	id := "j"
	all := map[string]any{"v": 1, "id": id, "born": "b", "enqueued_at": "2026-03-04T05:06:07Z"}
	for k, v := range fields {
		all[k] = v
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	q := keys.Queue("mail")
	key := map[string]string{"jobs": q.Job(id), "done": q.Done(id), "dead": q.Dead(id)}[dir]
	value := `{"w":"00000000000000aa",` + strings.TrimPrefix(string(b), "{")
	return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: 1, ModRevision: rev}
}

func TestEventsAreWhatKeysTell(t *testing.T) {
	keys, err := keyspace.New("")
	if err != nil {
		t.Fatal(err)
	}
	f := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	log := func(outcome string, more ...any) map[string]any {
		a := f("attempt", 1, "owner", "w-1.0123456789abcdef", "token", "7", "claimed_at", "2026-03-04T05:07:00Z", "ended_at", "2026-03-04T05:08:00Z", "outcome", outcome)
		for k, v := range f(more...) {
			if a[k] = v; v == "" {
				delete(a, k)
			}
		}
		return f("attempts_total", 1, "attempts", []any{a})
	}
	with := func(m map[string]any, kv ...any) map[string]any {
		for k, v := range f(kv...) {
			m[k] = v
		}
		return m
	}
	claimed := f("owner", "w-1.0123456789abcdef", "owner_rev", "3", "claimed_at", "2026-03-04T05:07:00Z", "attempt", 1)
	const rev = 9
	job := func(old, now *mvccpb.KeyValue) keyChange {
		kv := now
		if kv == nil {
			kv = old
		}
		return keyChange{string(kv.Key), old, now}
	}
	r := func(dir string, fields map[string]any) *mvccpb.KeyValue { return rec(t, keys, dir, rev, fields) }
	fresh := func(kv *mvccpb.KeyValue) *mvccpb.KeyValue { kv.CreateRevision = kv.ModRevision; return kv }
	raw := func(key, value string) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: rev, ModRevision: rev}
	}
	q := keys.Queue("mail")
	sid := "w-1.0123456789abcdef"
	for name, tt := range map[string]struct {
		changes []keyChange
		want    string // TYPE OF ACTOR TOKEN DETAIL, one for each event
	}{
		"enqueue":  {[]keyChange{job(nil, fresh(r("jobs", nil)))}, "enqueued job/mail/j   priority 0"},
		"later":    {[]keyChange{job(nil, fresh(r("jobs", f("run_at", "2026-03-04T06:06:07Z", "priority", 2))))}, "enqueued job/mail/j   priority 2, due in 60m"},
		"claim":    {[]keyChange{job(r("jobs", nil), r("jobs", claimed))}, "claimed job/mail/j w-1 9 session 0123456789abcdef"},
		"edit":     {[]keyChange{job(r("jobs", nil), r("jobs", f("priority", 3, "kind", "k")))}, "edited job/mail/j   priority, kind"},
		"fail":     {[]keyChange{job(r("jobs", claimed), r("jobs", log("failed", "error", "boom")))}, "failed job/mail/j w-1 7 boom"},
		"backoff":  {[]keyChange{job(r("jobs", claimed), r("jobs", with(log("failed", "error", "boom"), "run_at", "2026-03-04T05:08:30Z")))}, "failed job/mail/j w-1 7 boom; again in 30s"},
		"break":    {[]keyChange{job(r("jobs", claimed), r("jobs", log("broken", "actor", "ana@x", "reason", "hangs")))}, "broken job/mail/j ana@x 7 hangs"},
		"putback":  {[]keyChange{job(r("jobs", claimed), r("jobs", log("lost", "error", "gone")))}, "lost job/mail/j w-1 7 gone"},
		"reclaim":  {[]keyChange{job(r("jobs", claimed), r("jobs", with(log("lost"), "owner", "w-2.0123456789abcdef", "owner_rev", "4", "attempt", 2)))}, "reclaimed job/mail/j w-2 9 session w-1.0123456789abcdef is gone"},
		"complete": {[]keyChange{job(nil, r("done", with(log("completed"), "outcome", "completed", "finished_at", "2026-03-04T05:08:00Z", "result", "ok"))), job(r("jobs", claimed), nil)}, "done job/mail/j w-1 7 result 4 B, 60s"},
		"cancel":   {[]keyChange{job(r("jobs", nil), nil), job(nil, r("done", with(log("cancelled", "attempt", 0, "owner", "", "token", "", "actor", "ana", "reason", "no need"), "outcome", "cancelled", "finished_at", "2026-03-04T05:08:00Z")))}, "cancelled job/mail/j ana  no need"},
		"bury":     {[]keyChange{job(nil, r("dead", with(log("failed"), "outcome", "dead", "error", "550", "finished_at", "2026-03-04T05:08:00Z"))), job(r("jobs", claimed), nil)}, "dead job/mail/j w-1 7 550"},
		"requeue":  {[]keyChange{job(nil, fresh(r("jobs", log("requeued", "attempt", 0, "owner", "", "token", "", "actor", "ana")))), job(r("dead", f("outcome", "dead")), nil)}, "requeued job/mail/j ana  "},
		"anew":     {[]keyChange{job(nil, fresh(r("jobs", log("completed")))), job(r("done", log("completed")), nil)}, "enqueued job/mail/j   priority 0"},
		"expire":   {[]keyChange{job(r("done", f("outcome", "completed")), nil)}, "expired job/mail/j   "},
		"delete":   {[]keyChange{job(r("jobs", nil), nil)}, "deleted job/mail/j   "},
		"import":   {[]keyChange{job(nil, fresh(r("dead", f("outcome", "dead", "error", "x"))))}, "imported job/mail/j   x"},
		"unknown":  {[]keyChange{job(nil, r("jobs", claimed))}, "changed job/mail/j   "},
		"broken record": {[]keyChange{{q.Job("j"), nil, raw(q.Job("j"), `{"w":"00000000000000aa","v":1}`)}},
			"unreadable job/mail/j   read " + q.Job("j") + ": undecodable job record"},
		"fenced":   {[]keyChange{{q.Refused("j"), nil, raw(q.Refused("j"), `{"w":"x","verb":"complete","token":"7","owner":"`+sid+`","size":3}`)}}, "FENCED job/mail/j w-1 7 late complete refused, result 3 B"},
		"progress": {[]keyChange{{q.Progress("j"), nil, raw(q.Progress("j"), `{"token":"7"}`)}}, "progress job/mail/j  7 "},
		"pause":    {[]keyChange{{q.Config(), nil, raw(q.Config(), `{"paused":true,"actor":"ana","reason":"smtp"}`)}}, "paused queue/mail ana  smtp"},
		"resume":   {[]keyChange{{q.Config(), raw(q.Config(), `{"paused":true}`), raw(q.Config(), `{"actor":"bob"}`)}}, "resumed queue/mail bob  "},
		"mode":     {[]keyChange{{q.Config(), nil, raw(q.Config(), `{"mode":"dispatch"}`)}}, "configured queue/mail   mode dispatch"},
		"joins":    {[]keyChange{{q.Worker(sid), nil, raw(q.Worker(sid), `{}`)}}, "worker-joined queue/mail w-1  "},
		"leaves":   {[]keyChange{{q.Worker(sid), raw(q.Worker(sid), `{}`), nil}}, "worker-left queue/mail w-1  "},
		"opened":   {[]keyChange{{keys.Session(sid), nil, raw(keys.Session(sid), `{"host":"node-a"}`)}}, "session-opened  w-1  on node-a"},
		"ended":    {[]keyChange{{keys.Session(sid), raw(keys.Session(sid), `{}`), nil}}, "session-ended  w-1  "},
		"lock":     {[]keyChange{{keys.Locks() + "deploy/holder", nil, raw("", `{"owner":"`+sid+`"}`)}}, "locked lock/deploy w-1 9 "},
		"unlock":   {[]keyChange{{keys.Locks() + "deploy/holder", raw("", `{"owner":"`+sid+`"}`), nil}}, "unlocked lock/deploy w-1  "},
		"elect":    {[]keyChange{{keys.Elections() + "a/leader", raw("", `{"owner":"x.0"}`), raw("", `{"owner":"`+sid+`","by":"ana","reason":"stuck"}`)}}, "elected election/a w-1 9 by force of ana: stuck"},
		"waits":    {[]keyChange{{keys.Locks() + "deploy/waiters/" + sid + "-1", nil, raw("", `{}`)}}, ""},
		"foreign":  {[]keyChange{{"/leasekit/x", nil, raw("", `{}`)}, {keys.Meta(), nil, raw("", `{}`)}, {keys.Lane(sid, 0), nil, raw("", `x`)}}, ""},
		"two":      {[]keyChange{{q.Worker(sid), raw("", `{}`), nil}, {keys.Session(sid), raw("", `{}`), nil}}, "worker-left queue/mail w-1  \nsession-ended  w-1  "},
	} {
		var got []string
		for _, e := range eventsOf(keys, rev, tt.changes) {
			got = append(got, strings.Join([]string{e.Type, e.Subject(), e.Actor, e.Token, e.Detail}, " "))
			if e.Revision != "9" {
				t.Errorf("%s: revision %s", name, e.Revision)
			}
			if !contains(Types, e.Type) {
				t.Errorf("%s: type %s is not listed", name, e.Type)
			}
		}
		if text := strings.Join(got, "\n"); text != tt.want && !strings.HasPrefix(text, tt.want+":") {
			t.Errorf("%s:\ngot  %q\nwant %q", name, text, tt.want)
		}
	}
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// What etcd remembers adds to what the log tells, and repeats none of it.
func TestHistoryMergesLogAndRevisions(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 3, 4, 5, 6, s, 0, time.UTC) }
	ev := func(typ string, sec int, rev int64) Event {
		e := Event{Type: typ, Time: at(sec)}
		e.At(rev)
		return e
	}
	for name, tt := range map[string]struct {
		log, found []Event
		want       string
	}{
		"nothing found":                        {[]Event{ev("enqueued", 1, 0), ev("claimed", 2, 20)}, nil, "enqueued@0 claimed@20"},
		"gives revision":                       {[]Event{ev("enqueued", 1, 0), ev("claimed", 2, 20)}, []Event{ev("enqueued", 1, 10), ev("claimed", 2, 20)}, "enqueued@10 claimed@20"},
		"adds by revision, whatever the clock": {[]Event{ev("enqueued", 1, 10), ev("claimed", 2, 20)}, []Event{ev("edited", 9, 15)}, "enqueued@10 edited@15 claimed@20"},
		"adds by time":                         {[]Event{ev("claimed", 2, 20), ev("failed", 5, 0)}, []Event{ev("FENCED", 4, 30)}, "claimed@20 FENCED@30 failed@0"},
		"adds behind":                          {[]Event{ev("claimed", 2, 20)}, []Event{ev("FENCED", 4, 30)}, "claimed@20 FENCED@30"},
		"same type, another":                   {[]Event{ev("snoozed", 5, 0)}, []Event{ev("snoozed", 3, 30), ev("snoozed", 5, 50)}, "snoozed@30 snoozed@50"},
	} {
		var got []string
		for _, e := range Merge(tt.log, tt.found) {
			if e.Revision == "" {
				e.Revision = "0"
			}
			got = append(got, e.Type+"@"+e.Revision)
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: got %s, want %s", name, text, tt.want)
		}
	}
}

// Someone whose watch reaches back too far is told what is left.
func TestEventsSayWhatIsCompacted(t *testing.T) {
	err := compactedFrom(5, 20)
	if code, try := exit.Explain(err); code != exit.NotFound || try != "--since-rev 20" {
		t.Errorf("%v: exit code %d, try %q", err, code, try)
	}
}
