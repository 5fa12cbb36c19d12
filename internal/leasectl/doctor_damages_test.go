package leasectl

import (
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

const goneOwner = `,"attempt":1,"owner":"gone.0000000000000009","owner_rev":"5","claimed_at":"2026-01-02T03:04:05Z"`

// damage is one thing that is wrong: what doctor says of it, and what becomes of it.
type damage struct {
	code, name string
	make       func(r *doctorRig)
	args       []string
	exit       int
	// says is in the text, or its parts are in this order in one line.
	says []string
	// fixed tells that --fix mends it; else mend does what the advice says.
	fixed bool
	mend  func(r *doctorRig)
	// then looks at what the repair has left.
	then func(r *doctorRig)
}

var damages = []damage{
	{code: "J1", name: "claimed by a gone session", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), record("x", goneOwner)) },
		says: []string{"ERROR J1", "1 job claimed by a gone session", "mail/x token ", "no live worker"},
		then: func(r *doctorRig) {
			j := r.job("mail", "x")
			if j.State != workqueue.StateReady || j.Attempts[0].Outcome != "broken" || j.Attempts[0].Actor != cli.Actor() || j.Attempts[0].Reason != "test" {
				r.Errorf("the job became %+v", j)
			}
		}},
	{code: "J1", name: "nobody takes it although there is room", exit: 8, fixed: true,
		make: func(r *doctorRig) {
			r.worker("mail", "w.0000000000000001")
			r.put(r.queue("mail").Job("x"), record("x", goneOwner))
		},
		says: []string{"J1", "mail/x", "w.0000000000000001 has room"}},
	{code: "J1", name: "may be started once", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), record("x", goneOwner+`,"at_most_once":true`)) },
		says: []string{"J1", "mail/x"},
		then: func(r *doctorRig) {
			if j := r.job("mail", "x"); j.State != workqueue.StateDead {
				r.Errorf("the job became %+v", j)
			}
		}},
	{code: "J2", name: "live", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), `{"v":1,"id":"x","payload":{"to":"ana"}}`) },
		says: []string{"ERROR J2", "1 undecodable record", "mail/x in jobs/", "head nonce"},
		then: func(r *doctorRig) {
			j := r.job("mail", "x")
			if j.State != workqueue.StateDead || string(j.Payload) != `{"to":"ana"}` || j.Attempts[0].Actor != cli.Actor() || j.Attempts[0].Reason != "test" {
				r.Errorf("the job became %+v", j)
			}
		}},
	{code: "J2", name: "done and dead", exit: 8, fixed: true,
		make: func(r *doctorRig) {
			lease, _ := r.session("w.0000000000000001", "")
			r.put(r.queue("mail").Done("x"), "garbage", clientv3.WithLease(lease))
			r.put(r.queue("mail").Dead("y"), "")
		},
		says: []string{"J2", "2 undecodable records", "mail/y in dead/", "mail/x in done/"},
		then: func(r *doctorRig) {
			if j := r.job("mail", "x"); j.State != workqueue.StateDead || string(j.Payload) != "garbage" {
				r.Errorf("the job became %+v", j)
			}
		}},
	{code: "J9", name: "its worker hangs", exit: 0,
		make: func(r *doctorRig) {
			claimed := func(id string, since time.Duration, more string) {
				_, rev := r.session(id+".0000000000000001", "")
				r.put(r.queue("mail").Job(id), record(id, fmt.Sprintf(`,"attempt":1,"owner":"%s.0000000000000001","owner_rev":"%d","claimed_at":%q%s`,
					id, rev, time.Now().Add(-since).UTC().Format(time.RFC3339Nano), more)))
			}
			note := func(id string, ago time.Duration) {
				r.put(r.queue("mail").Progress(id), fmt.Sprintf(`{"w":"8888888888888888","token":1,"at":%q}`, time.Now().Add(-ago).UTC().Format(time.RFC3339Nano)))
			}
			claimed("hangs", 3*time.Hour, "")
			claimed("stuck", 3*time.Hour, "")
			note("stuck", 2*time.Hour)
			claimed("works", 3*time.Hour, "")
			note("works", time.Minute)
			claimed("young", time.Minute, "")
			claimed("may", 3*time.Hour, `,"timeout_ms":36000000`)
		},
		says: []string{"WARN  J9", "2 jobs without progress", "mail/hangs token ", "no sign for 3h", "mail/stuck", "no sign for 2h"},
		mend: func(r *doctorRig) { // as the advice says
			for _, id := range []string{"hangs", "stuck"} {
				if _, errOut, code := r.leasectl("jobs", "release", "mail/"+id, "--break-claim", "--yes"); code != 0 {
					r.Errorf("release %s: %s", id, errOut)
				}
			}
		}},
	{code: "K4", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Job("x"), record("x", `,"kind":"a\u0000b","run_at":"2099-01-01T00:00:00Z"`))
		},
		says: []string{"WARN  K4", "1 job of an unfit kind", "mail/x"},
		mend: func(r *doctorRig) { r.cancel("mail", "x") }},
	{code: "J3", name: "failures", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), record("x", `,"failures":5`)) },
		says: []string{"ERROR J3", "1 job beyond its attempts", "mail/x", "5 failures of 5"},
		then: func(r *doctorRig) {
			j := r.job("mail", "x")
			if j.State != workqueue.StateDead || j.Error != "test" || j.Attempts[0].Outcome != "buried" {
				r.Errorf("the job became %+v", j)
			}
		}},
	{code: "J3", name: "losses", exit: 8, fixed: true,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Job("x"), record("x", `,"losses":3,"run_at":"2099-01-01T00:00:00Z"`))
		},
		says: []string{"J3", "3 losses of 3"}},
	{code: "J5", exit: 0,
		make: func(r *doctorRig) {
			if _, err := r.open("mail").Enqueue(r.Context(), workqueue.Params{ID: "x", Payload: make([]byte, 800<<10)}); err != nil {
				r.Fatal(err)
			}
		},
		says: []string{"WARN  J5", "1 value near the request limit", "mail/x (payload of 800 KiB)", "keep large data elsewhere"},
		mend: func(r *doctorRig) { r.cancel("mail", "x") }},
	{code: "J6", exit: 0, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Done("x"), record("x", `,"outcome":"completed"`)) },
		says: []string{"WARN  J6", "1 done job without a retention lease", "mail/x"},
		then: func(r *doctorRig) {
			if r.exists(r.queue("mail").Done("x")) {
				r.Error("it is still there")
			}
		}},
	{code: "J6", name: "on a session's lease", exit: 0,
		make: func(r *doctorRig) {
			lease, _ := r.session("w.00000000000000b8", "")
			r.put(r.queue("mail").Done("x"), record("x", `,"outcome":"completed"`), clientv3.WithLease(lease))
		},
		says: []string{"WARN  J6", "1 done job without a retention lease", "mail/x revision ", " goes with session w.00000000000000b8", "leasectl jobs get"},
		mend: func(r *doctorRig) { r.delete(r.queue("mail").Done("x")) }},
	{code: "J2", name: "kept for ever as well", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Done("x"), "garbage") },
		says: []string{"ERROR J2", "mail/x in done/"},
		then: func(r *doctorRig) {
			if j := r.job("mail", "x"); j.State != workqueue.StateDead || string(j.Payload) != "garbage" {
				r.Errorf("the job became %+v", j)
			}
		}},
	{code: "J7", name: "record", exit: 8,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), `{"w":"8888888888888888","v":9,"id":"x"}`) },
		says: []string{"ERROR J7", "1 record of queue mail newer than this program", "mail/x", "leasectl of that version"},
		mend: func(r *doctorRig) { r.delete(r.queue("mail").Job("x")) }},
	{code: "J7", name: "schema", exit: 8,
		make: func(r *doctorRig) { r.put(r.keys.Meta(), `{"schema":2}`) },
		says: []string{"J7", "schema newer than this program", "leasectl of that version"},
		mend: func(r *doctorRig) { r.put(r.keys.Meta(), `{"schema":1}`) }},
	{code: "J8", exit: 8,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Job("x"), record("x", ""))
			r.put(r.queue("mail").Dead("x"), record("x", `,"outcome":"dead"`))
		},
		says: []string{"ERROR J8", "1 id in two places", "mail/x is in jobs and dead", "leasectl jobs get mail/x"},
		mend: func(r *doctorRig) { r.delete(r.queue("mail").Dead("x")) }},
	{code: "Q1", exit: 0,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), record("x", "")) },
		says: []string{"WARN  Q1", "queue mail has 1 ready and no live worker", "mail/x", "leasectl work mail -- CMD"},
		mend: func(r *doctorRig) { r.worker("mail", "w.0000000000000001") }},
	{code: "Q1", name: "a kind that nobody knows", exit: 0,
		make: func(r *doctorRig) {
			lease, _ := r.session("w.0000000000000001", "")
			r.put(r.queue("mail").Worker("w.0000000000000001"), `{"w":"8888888888888888","kinds":["a"],"concurrency":4}`, clientv3.WithLease(lease))
			r.put(r.queue("mail").Job("x"), record("x", `,"kind":"b"`))
		},
		says: []string{"Q1", "1 ready of kind b, which no live worker knows"},
		mend: func(r *doctorRig) { r.worker("mail", "w.0000000000000002") }},
	{code: "Q2", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("reports").Config(), `{"w":"8888888888888888","paused":true,"actor":"ana","reason":"db migration","at":"`+earlier(26*time.Hour)+`"}`)
		},
		says: []string{"WARN  Q2", "queue reports paused 26h", `by ana: "db migration"`, "leasectl queues resume reports"},
		mend: func(r *doctorRig) {
			if out, errOut, code := r.leasectl("queues", "resume", "reports"); code != 0 {
				r.Fatal(out, errOut)
			}
		}},
	{code: "Q2", name: "since when is not said", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("reports").Config(), `{"w":"8888888888888888","paused":true}`)
			r.put(r.queue("reports").Job("x"), strings.Replace(record("x", ""), time.Now().UTC().Format("2006"), "2020", 1))
		},
		says: []string{"Q2", "queue reports paused", "or longer"},
		mend: func(r *doctorRig) { r.delete(r.queue("reports").Config()) }},
	{code: "Q2", name: "of an odd name", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("a b/c").Config(), `{"w":"8888888888888888","paused":true,"at":"`+earlier(26*time.Hour)+`"}`)
		},
		says: []string{"Q2", "queue a%20b/c paused 26h", "leasectl queues resume 'a b/c'"},
		mend: func(r *doctorRig) { r.delete(r.queue("a b/c").Config()) }},
	{code: "J2", name: "cut behind its head", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Job("x"), `{"w":"8888888888888888"`) },
		says: []string{"ERROR J2", "mail/x in jobs/"}},
	{code: "J2", name: "cut in its head", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Dead("x"), `{"w":"88888888`) },
		says: []string{"ERROR J2", "mail/x in dead/"}},
	{code: "J2", name: "in a queue of an odd name", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("a/b").Job("x"), "garbage") },
		says: []string{"ERROR J2", "a%2Fb/x in jobs/"}},
	{code: "Q3", exit: 0, args: []string{"--max-wait", "30m"},
		make: func(r *doctorRig) {
			r.worker("mail", "w.0000000000000001")
			r.put(r.queue("mail").Job("x"), `{"w":"8888888888888888","v":1,"id":"x","born":"b","enqueued_at":"`+earlier(time.Hour)+`"}`)
		},
		says: []string{"WARN  Q3", "queue mail oldest ready 60m", "mail/x; target 30m0s", "more workers"},
		mend: func(r *doctorRig) { r.cancel("mail", "x") }},
	{code: "Q4", exit: 8, fixed: true,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Config(), "nonsense")
			r.put(r.queue("other").Config(), `{"w":"8888888888888888"}`)
			// One that cannot be read hides no other.
			out, errOut, code := r.leasectl("queues", "ls", "-o", "name")
			if code != 0 || out != "queue/other\n" || !strings.Contains(errOut, "the config") {
				r.Errorf("queues ls: exit code %d, %q, %q", code, out, errOut)
			}
			// What changes it says what mends it.
			for _, args := range [][]string{{"pause", "mail"}, {"resume", "mail"}, {"set", "mail", "--mode", "claim"}, {"drain", "mail"}} {
				out, errOut, code := r.leasectl(append([]string{"queues"}, args...)...)
				if code != exit.Failed || out != "" || !strings.HasSuffix(errOut, "; try: leasectl doctor --fix, then the same command\n") {
					r.Errorf("queues %s: exit code %d, %q, %q", args[0], code, out, errOut)
				}
			}
		},
		says: []string{"ERROR Q4", "config of queue mail cannot be read", `is "nonsense"`, "leasectl doctor --fix"},
		then: func(r *doctorRig) {
			out, _, code := r.leasectl("queues", "ls", "-o", "csv", "--no-headers", "--columns", "NAME,PAUSED")
			if code != 0 || out != "mail,yes\nother,no\n" {
				r.Errorf("queues ls: exit code %d, %q", code, out)
			}
			if out, errOut, code := r.leasectl("queues", "resume", "mail"); code != 0 {
				r.Errorf("queues resume: exit code %d, %q, %q", code, out, errOut)
			}
		}},
	{code: "Q4", name: "who set it", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.queue("mail").Config(), `{"set_by":7}`) },
		says: []string{"ERROR Q4", "config of queue mail cannot be read"}},
	{code: "Q5", exit: 0, fixed: true,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Config(), `{"w":"8888888888888888","mode":"claim","retention":"-5h","retain_jobs":9223372036854775807,"retain_bytes":4096,"limits":{"gpu":4}}`)
			r.put(r.queue("other").Config(), `{"w":"8888888888888888","retention":"5h"}`)
			out, errOut, code := r.leasectl("queues", "describe", "mail")
			if code != 0 || !strings.Contains(out, "retention is \"-5h\"") || !strings.Contains(out, "leasectl doctor --fix") {
				r.Errorf("queues describe: exit code %d, %q, %q", code, out, errOut)
			}
		},
		says: []string{"WARN  Q5", "settings of queue mail that nobody goes by", `retention is "-5h": invalid retention "-5h0m0s": it is between 1s and 100 years`, "retain_jobs is 9223372036854775807"},
		then: func(r *doctorRig) {
			now := r.valueAt(r.queue("mail").Config())
			if strings.Contains(now, "retention") || strings.Contains(now, "retain_jobs") || !strings.Contains(now, `"retain_bytes":4096`) || !strings.Contains(now, `"limits":{"gpu":4}`) {
				r.Errorf("the config is %s", now)
			}
		}},
	{code: "S1", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.keys.Session("w.0000000000000001"), `{"w":"8888888888888888"}`) },
		says: []string{"ERROR S1", "1 session without a lease", "w.0000000000000001"},
		then: func(r *doctorRig) {
			if r.exists(r.keys.Session("w.0000000000000001")) {
				r.Error("it is still there")
			}
		}},
	{code: "S2", exit: 0,
		make: func(r *doctorRig) { r.nearlyExpired("w.00000000000000a1") },
		says: []string{"WARN  S2", "session renews late", "w.00000000000000a1", "look at that process"},
		mend: func(r *doctorRig) { r.delete(r.keys.Session("w.00000000000000a1")) }},
	{code: "S4", name: "another's", exit: 8, fixed: true,
		make: func(r *doctorRig) {
			r.put(r.keys.Session("w.00000000000000b1"), `{"w":"8888888888888888"}`, clientv3.WithLease(r.grant("w.00000000000000b2", 600)))
		},
		says: []string{"ERROR S4", "1 session on a wrong lease", "w.00000000000000b1", "00000000000000b2, not on its own"},
		then: func(r *doctorRig) {
			if left, err := r.client.TimeToLive(r.Context(), 0xb2); err != nil || left.TTL <= 0 {
				r.Errorf("the other lease was ended: %v, %v", left, err)
			}
		}},
	{code: "S4", name: "one of years", exit: 8, fixed: true,
		make: func(r *doctorRig) {
			r.put(r.keys.Session("w.00000000000000b3"), `{"w":"8888888888888888"}`, clientv3.WithLease(r.grant("w.00000000000000b3", 3*365*24*3600)))
		},
		says: []string{"ERROR S4", "1 session on a wrong lease", "w.00000000000000b3", "its lease is for 1095d"}},
	{code: "E7", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Refused("x"), `{"w":"8888888888888888","verb":"complete","token":"999999999"}`, clientv3.WithLease(r.grant("w.00000000000000b4", 600)))
		},
		says: []string{"WARN  E7", "etcd's history went back", "mail/x", "token 999999999", "--after-restore"},
		mend: func(r *doctorRig) { r.delete(r.queue("mail").Refused("x")) }},
	{code: "K2", name: "on a lease that is not its session's", exit: 0, fixed: true,
		make: func(r *doctorRig) {
			r.session("w.00000000000000b5", "")
			other := clientv3.WithLease(r.grant("w.00000000000000b6", 600))
			r.put(r.queue("mail").Worker("w.00000000000000b5"), `{"w":"8888888888888888","concurrency":4}`, other)
			r.put(r.keys.Locks()+"l/waiters/w.00000000000000b5-1", "{}", other)
			r.put(r.keys.Lane("w.00000000000000b7", 0), "{}", other)
		},
		says: []string{"WARN  K2", "3 leftover keys", "on lease 00000000000000b6, not on its own"}},
	{code: "S3", exit: 0,
		make: func(r *doctorRig) {
			r.session("w.0000000000000001", `,"host":"node-a"`)
			r.session("w.0000000000000002", `,"host":"node-b"`)
		},
		says: []string{"WARN  S3", "identity w used on 2 hosts", "node-a, node-b", "identity of their own"},
		mend: func(r *doctorRig) { r.delete(r.keys.Session("w.0000000000000002")) }},
	{code: "X1", exit: 8,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Config(), `{"w":"8888888888888888","mode":"dispatch"}`)
			r.put(r.queue("mail").Job("x"), record("x", ""))
		},
		says: []string{"ERROR X1", "queue mail has no dispatcher", "1 jobs wait", "leasectl dispatch mail"},
		mend: func(r *doctorRig) { r.delete(r.queue("mail").Config()) }},
	{code: "X1", name: "whose dispatcher is gone, and nothing waits", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Config(), `{"w":"8888888888888888","mode":"dispatch"}`)
			r.put(r.leader("dispatcher:mail"), `{"w":"8888888888888888","owner":"gone.0000000000000009","owner_rev":"5"}`)
		},
		says: []string{"WARN  X1", "nothing waits"},
		mend: func(r *doctorRig) {
			_, rev := r.session("d.0000000000000001", "")
			r.put(r.leader("dispatcher:mail"), `{"w":"8888888888888888","owner":"d.0000000000000001","owner_rev":"`+coord.Token(rev).String()+`"}`)
		}},
	{code: "X2", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.leader("e"), `{"w":"8888888888888888","owner":"gone.0000000000000009","owner_rev":"5"}`)
		},
		says: []string{"WARN  X2", "election e has no candidates", "gone.0000000000000009", "leasectl elections campaign e"},
		mend: func(r *doctorRig) { r.delete(r.leader("e")) }},
	{code: "X3", exit: 0, fixed: true, args: []string{"--max-hold", "1ms"},
		make: func(r *doctorRig) { r.holdAndWait("deploy") },
		says: []string{"WARN  X3", "lock deploy held ", "s while 1 wait", "by holder."}},
	{code: "C1", name: "ahead of this host", exit: 0,
		make: func(r *doctorRig) { r.session("w.0000000000000001", `,"opened_at":"`+earlier(-90*time.Minute)+`"`) }, // less the time until it is looked at
		says: []string{"WARN  C1", "clock of w is 1h", "ahead", "of this host", "synchronise the clocks"},
		mend: func(r *doctorRig) { r.delete(r.keys.Session("w.0000000000000001")) }},
	{code: "C1", name: "apart", exit: 0,
		make: func(r *doctorRig) {
			fast, slow := earlier(time.Minute), earlier(2*time.Minute) // of one moment, however long the puts take
			r.session("fast.0000000000000001", `,"opened_at":"`+fast+`"`)
			for _, sid := range []string{"slow.0000000000000001", "slow.0000000000000002", "slow.0000000000000003"} {
				r.session(sid, `,"opened_at":"`+slow+`"`)
			}
		},
		says: []string{"C1", "clock of fast is 1m0s ahead", "of slow"},
		mend: func(r *doctorRig) { r.delete(r.keys.Session("slow.0000000000000001")) }},
	{code: "K1", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.keys.Root()+"notes", "mine")
			r.put(r.keys.Root()+"schedules/nightly", "of a newer version")
		},
		says: []string{"WARN  K1", "1 key outside the schema", "notes", "etcdctl get"},
		mend: func(r *doctorRig) { r.delete(r.keys.Root() + "notes") }},
	{code: "K1", name: "among the jobs", exit: 0,
		make: func(r *doctorRig) {
			r.put(r.queue("mail").Jobs()+"zz/x", record("x", ""))
			r.put(r.queue("mail").Config(), "{}")
		},
		says: []string{"K1", "1 key outside the schema", "queues/mail/jobs/zz/x"},
		mend: func(r *doctorRig) { r.delete(r.queue("mail").Jobs() + "zz/x") }},
	{code: "K1", name: "among many queues", exit: 0,
		make: func(r *doctorRig) {
			for i := range 70 {
				r.put(r.queue(fmt.Sprint("q", i)).Config(), "{}")
			}
			r.put(r.queue("q7").Jobs()+"zz/x", record("x", ""))
		},
		says: []string{"K1", "1 key outside the schema", "queues/q7/jobs/zz/x"},
		mend: func(r *doctorRig) { r.delete(r.queue("q7").Jobs() + "zz/x") }},
	{code: "K3", exit: 8, fixed: true,
		make: func(r *doctorRig) { r.put(r.keys.Root()+"locks/a%0Ab/holder", "{}") },
		says: []string{"ERROR K3", "/locks/a%0Ab/holder (", "control characters"}},
	{code: "K2", exit: 0, fixed: true,
		make: func(r *doctorRig) {
			q := r.queue("mail")
			for _, key := range []string{
				q.Payload("a"), q.Progress("b"), q.Assigned("w.0000000000000001", "c"), q.Worker("w.0000000000000001"), q.Refused("d"),
				r.keys.Lane("w.0000000000000001", 0), r.keys.Locks() + "l/waiters/w.0000000000000001-1",
			} {
				r.put(key, "{}")
			}
		},
		says: []string{"WARN  K2", "7 leftover keys", "and 4 more"}},
}

// sharedRevision: the damages are made side by side in one etcd; TestDoctorOnlyReads has one for itself.
const sharedRevision = true
