package workqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
)

// run does what one line says, and returns what it led to. An error matches
// errCannot when the line makes no sense now, errViolation when something happened
// that never may.
func (p *play) run(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 || words[0] == "#" {
		return "", nil
	}
	verb, words := words[0], words[1:]
	if stage, ok := stages[verb]; ok {
		return stage(p, words)
	}
	sending := verb == "send"
	if sending && len(words) > 0 {
		verb, words = words[0], words[1:]
	}
	if len(words) == 0 {
		return "", cannot("%s: nobody is named", line)
	}
	who, ok := p.names[words[0]]
	if !ok {
		return "", cannot("there is no %s", words[0])
	}
	switch verb {
	case "arrive":
		return p.arrive(who, true)
	case "unheard":
		return p.arrive(who, false)
	case "lose":
		return "", p.lose(who)
	case "late":
		return p.lateArrives(who)
	case "twice":
		return p.twice(who)
	case "take":
		return "", p.take(who, words[1])
	case "deny":
		return p.deny(who)
	case "learn":
		return p.learn(who)
	case "settle":
		return p.settle(who)
	case "desert":
		return "", p.desert(who)
	case "lapse":
		return p.lapse(who)
	case "share":
		p.share(who, p.names[words[1]])
		return "", nil
	case "older":
		p.actors[who].old = true
		return "", nil
	}
	if err := p.send(verb, who, words[1:]); err != nil || sending {
		return "", err
	}
	return p.arrive(who, true)
}

// stages are what happens around the processes.
var stages = map[string]func(p *play, words []string) (string, error){
	"expire":   stageExpire,
	"evict":    stageEvict,
	"crash":    stageCrash,
	"forget":   stageForget,
	"register": stageRegister,
	"leave":    stageLeave,
	"lead":     stageLead,
	"backup":   stageBackup,
	"restore":  stageRestore,
	"foreign":  stageForeign,
	"depart":   stageDepart,
	"show":     stageShow,
}

func (p *play) named(words []string) (*actor, error) {
	if len(words) > 0 {
		if i, ok := p.names[words[0]]; ok {
			return &p.actors[i], nil
		}
	}
	return nil, cannot("nobody is named")
}

// stageExpire ends a session. Its process does not know yet.
func stageExpire(p *play, words []string) (string, error) {
	a, err := p.named(words)
	if err != nil || !p.lives(a.sess) {
		return "", cannot("it has no session")
	}
	p.spent.expired++
	p.endLease(a)
	return "", nil
}

// stageEvict deletes a session's key by hand: what else is on its lease stays.
func stageEvict(p *play, words []string) (string, error) {
	a, err := p.named(words)
	if err != nil || !p.lives(a.sess) {
		return "", cannot("it has no session")
	}
	p.spent.evicted++
	p.delete(p.Space.Session(a.sess.ID))
	return "", nil
}

// stageCrash kills a process. What it sent stays on its way.
func stageCrash(p *play, words []string) (string, error) {
	a, err := p.named(words)
	if err != nil || a.crashed {
		return "", cannot("it is dead")
	}
	p.spent.crashed++
	if a.flight != nil {
		p.late = append(p.late, a.flight)
	}
	a.crashed, a.flight, a.hold, a.unsure, a.doubt, a.book, a.reg = true, nil, nil, false, false, nil, registered{}
	return "", nil
}

// stageForget ends the retention of what is done.
func stageForget(p *play, _ []string) (string, error) {
	p.revoke(p.retentionLease())
	p.spent.forgotten++
	p.grant(p.retentionLease())
	p.told = p.told.copy()
	for i := range p.told.jobs {
		if p.told.jobs[i].where == job.InDone {
			p.told.jobs[i] = jobSpec{}
		}
	}
	return "", nil
}

// stageLead makes a dispatcher the leader. How elections are won is played elsewhere.
func stageLead(p *play, words []string) (string, error) {
	a, err := p.named(words)
	if err != nil || !p.lives(a.sess) || a.crashed {
		return "", cannot("it has no session")
	}
	p.spent.led++
	key, nonce := p.Space.Elections()+"dispatcher:q/leader", p.fresh(0x80+p.spent.led)
	p.put(key, `{"w":"`+nonce+`"}`, 0)
	a.term = etcdkv.Fence{Key: key, Token: p.modRev(key), Nonce: nonce}
	p.told = p.told.copy()
	p.told.leader = nonce + fmt.Sprint(a.term.Token)
	return "", nil
}

func stageBackup(p *play, _ []string) (string, error) {
	p.backup = &backup{etcd: p.etcd, told: p.told.copy()}
	return "", nil
}

// stageRestore takes etcd back, and nobody notices.
func stageRestore(p *play, _ []string) (string, error) {
	if p.backup == nil || p.real != nil {
		return "", cannot("there is no backup")
	}
	p.spent.restored++
	p.etcd, p.told = p.backup.etcd, p.backup.told.copy()
	return "", nil
}

// stageForeign writes a key that is nobody's, so that a revision goes by.
func stageForeign(p *play, _ []string) (string, error) {
	p.spent.foreign++
	p.put(p.Space.Root()+"foreign", "", 0)
	return "", nil
}

// stageShow prints a job with its trail.
func stageShow(p *play, words []string) (string, error) {
	if len(words) != 1 {
		return "", cannot("show which job")
	}
	l, ok := p.find(words[0])
	if !ok {
		return "nothing", nil
	}
	r := l.Record
	var b strings.Builder
	b.WriteString(string(r.State(l.Where, jobtest.Now, func(sid string, rev int64) bool { return p.lives(job.Owner{ID: sid, Rev: rev}) })))
	if r.Claimed() {
		fmt.Fprintf(&b, " by %s", strings.SplitN(r.Owner, ".", 2)[0])
	}
	fmt.Fprintf(&b, ", attempt %d, failures %d, losses %d", r.Attempt, r.Failures, r.Losses)
	for _, a := range r.Attempts {
		fmt.Fprintf(&b, "\n  %s", a.Outcome)
		if a.Owner != "" {
			fmt.Fprintf(&b, " %d of %s", a.Attempt, strings.SplitN(a.Owner, ".", 2)[0])
		}
		if a.Actor != "" {
			fmt.Fprintf(&b, " by %s", a.Actor)
		}
		if a.Counted {
			b.WriteString(", counted")
		}
	}
	h := p.homeOf(words[0])
	if kv := p.lookup(h.q.Keys.Progress(h.id)); kv != nil {
		_, seq := noteOf(kv.Value)
		fmt.Fprintf(&b, "\n  checkpoint %d", seq)
	}
	return b.String(), nil
}

// liveServer is a real etcd in the place of the one in memory.
type liveServer struct {
	ctx    context.Context
	client *clientv3.Client
	err    error
}

func (s *liveServer) note(err error) { s.err = errors.Join(s.err, err) }

func (s *liveServer) grant(id int64) {
	_, err := clientv3.RetryLeaseClient(s.client).LeaseGrant(s.ctx, &pb.LeaseGrantRequest{ID: id, TTL: 600})
	s.note(err)
}

func (s *liveServer) revoke(id int64) {
	_, err := s.client.Revoke(s.ctx, clientv3.LeaseID(id))
	s.note(err)
}

func (s *liveServer) commit(t etcdkv.Txn) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	return s.client.Txn(ctx).If(t.If...).Then(t.Then...).Else(t.Else...).Commit()
}

func (s *liveServer) lookup(key string) *mvccpb.KeyValue {
	resp, err := s.client.Get(s.ctx, key)
	s.note(err)
	if err != nil || len(resp.Kvs) == 0 {
		return nil
	}
	return resp.Kvs[0]
}
