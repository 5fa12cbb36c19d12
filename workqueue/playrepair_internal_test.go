package workqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
)

// repair is what the request of an operator who repairs was made of.
type repair struct {
	found job.ImportSeen // import: what makes way
	bytes string         // salvage: what could not be read
	// breaking tells that the job may be taken from its owner.
	breaking bool
}

// repairs are the builders of their Txns.
var repairs = []string{"edit", "relocate", "remove", "salvage", "restore", "disband"}

func init() {
	maps.Copy(sends, map[string]sender{
		"edit": sendEdit, "move": sendMove, "delete": sendDelete, "salvage": sendSalvage, "import": sendImport, "disband": sendDisband,
	})
	maps.Copy(stages, map[string]func(p *play, words []string) (string, error){
		"garble": stageGarble, "rename": stageRename, "litter": stageLitter, "export": stageExport,
	})
}

// byHand is an event that somebody asks for, about what he has read.
func (p *play) byHand(v job.Verb, m *message) job.Event {
	e := p.event(v, m)
	e.Token = job.Token(m.seen.Rev)
	e.By = job.By{Actor: p.actors[m.who].name, Reason: "so", BreakClaim: m.repair.breaking}
	return e
}

var largePayload = strings.Repeat("p", job.InlineLimit+1)

// payloadNamed is the payload that a line asks for: a digit, or one that is too large
// for the record.
func payloadNamed(args []string) []byte {
	for _, arg := range args {
		switch {
		case arg == "large":
			return []byte(largePayload)
		case arg[0] >= '0' && arg[0] <= '9':
			return []byte(arg)
		}
	}
	return nil
}

// payloadOf is the payload of a record, wherever it lies.
func payloadOf(r *job.Record) string {
	if r.Beside > 0 {
		return largePayload
	}
	return string(r.PayloadBytes())
}

// beside reads what lies beside the job of a message, as Queue.retold does.
func (p *play) beside(m *message) (b job.Beside, err error) {
	b.Payload = m.seen.Record.PayloadBytes()
	if kv := p.lookup(m.q.Keys.Payload(m.id)); kv != nil && m.seen.Record.Beside > 0 {
		b.Payload = kv.Value
	}
	if kv := p.lookup(m.q.Keys.Progress(m.id)); kv != nil {
		b.Progress, b.ProgressRev = kv.Value, kv.ModRevision
	}
	if m.seen.Where != job.InDone && len(b.Payload) < m.seen.Record.Beside {
		return b, cannot("the payload of %s is gone", m.job)
	}
	return b, nil
}

func sendEdit(p *play, m *message, args []string) error {
	if err := p.read(m); err != nil {
		return err
	}
	b, err := p.beside(m)
	if err != nil {
		return err
	}
	e := p.byHand(job.VerbEdit, m)
	e.Edit, err = job.Edit(m.seen.Record, b.Payload, defaultMaxPayload, func(params *job.Description) error {
		params.Payload = payloadNamed(args)
		return nil
	})
	if err != nil {
		return err
	}
	if m.n, err = job.Transition(m.seen.Record, m.seen.Where, e); err != nil {
		return cannot("%v", err)
	}
	m.builder, m.payload = "edit", string(e.Edit.Payload)
	m.txn, err = m.q.Edit(m.seen, m.n, e.Edit)
	return err
}

// sendMove moves a job to the queue that is named.
func sendMove(p *play, m *message, args []string) error {
	if err := p.read(m); err != nil {
		return err
	}
	name := m.id
	if args[0] != p.Keys.Name() {
		name += "@" + args[0]
	}
	if m.there = p.index(name); m.there < 0 || name == m.job {
		return cannot("there is no such other queue")
	}
	b, err := p.beside(m)
	if err != nil {
		return err
	}
	e := p.byHand(job.VerbMove, m)
	e.From = m.q.Keys.Name()
	if m.n, err = job.Transition(m.seen.Record, m.seen.Where, e); err != nil {
		return cannot("%v", err)
	}
	m.builder = "relocate"
	m.txn, err = m.q.Relocate(m.seen, m.n, p.homes[m.there].q, b)
	return err
}

func sendDelete(p *play, m *message, args []string) error {
	if err := p.read(m); err != nil {
		return err
	}
	if m.seen.Where == job.InJobs && m.seen.Record.Claimed() && !m.repair.breaking {
		return cannot("it is claimed")
	}
	m.builder, m.txn = "remove", m.q.Remove(m.seen)
	return nil
}

// sendSalvage salvages the first record of the job that cannot be read.
func sendSalvage(p *play, m *message, _ []string) error {
	for where := job.InJobs; where <= job.InDead; where++ {
		kv := p.lookup(m.q.Key(where, m.id))
		if kv == nil {
			continue
		}
		_, why := m.q.Decode(where, kv)
		if why == nil {
			continue
		}
		e := p.byHand(job.VerbBury, m)
		r := job.Salvaged(m.id, kv.Value, why, e)
		m.builder, m.seen, m.n, m.repair.bytes = "salvage", job.Snapshot{Where: where, Rev: kv.ModRevision}, job.Next{Record: r, Where: job.InDead}, string(kv.Value)
		var err error
		m.txn, err = m.q.Salvage(kv, where, r)
		return err
	}
	return cannot("it can be read")
}

// exportedJob is a line of an export, and what was true of the job then.
type exportedJob struct {
	text []byte
	told jobSpec
}

// stageExport keeps the line of a job that nobody has claimed yet: nothing lies beside
// that a process would have to read.
func stageExport(p *play, words []string) (string, error) {
	l, ok := p.find(words[0])
	if !ok || l.Record.Attempt > 0 || l.Record.Beside > 0 {
		return "", cannot("it is not there, or has something beside")
	}
	h := p.homeOf(words[0])
	text, err := job.ExportLine(h.q.Keys.Name(), l, job.Beside{})
	p.exported = &exportedJob{text, p.told.copy().jobs[p.index(words[0])]}
	return "", err
}

// sendImport is a blind first try, and, after it was told what is there, the second,
// before which what makes way is judged as importing.judge does.
func sendImport(p *play, m *message, args []string) error {
	im, err := job.ReadLine(p.exported.text, defaultMaxPayload)
	if err != nil {
		return err
	}
	if err := im.Unclaim(job.By{Actor: p.actors[m.who].name, Reason: "so"}); err != nil {
		return err
	}
	im.Record.Nonce, im.Record.Seq = p.fresh(m.call), 1 // as they are drawn here, and not at random
	var lease clientv3.LeaseID
	if im.Where == job.InDone {
		lease = clientv3.LeaseID(p.retentionLease())
	}
	if slices.Contains(args, "replace") {
		if err := p.makeWay(m, im); err != nil {
			return err
		}
	}
	m.builder, m.n = "restore", job.Next{Record: im.Record, Where: im.Where}
	m.txn, err = m.q.Restore(im.Restored(lease), m.repair.found)
	return err
}

func (p *play) makeWay(m *message, im *job.Imported) error {
	if err := p.read(m); err != nil {
		return err
	}
	if old := m.seen.Record; old.Born == im.Record.Born || old.Claimed() {
		return cannot("it is the very job, or claimed")
	}
	m.repair.found[m.seen.Where] = m.seen.Rev
	return nil
}

func sendDisband(p *play, m *message, _ []string) error {
	left := int64(0)
	for _, a := range p.actors {
		if a.sess.ID != "" && p.serves(m.q, a.sess.ID) != 0 {
			return cannot("it has workers")
		}
		left = max(left, p.modRev(m.q.Keys.Worker(a.sess.ID)))
	}
	m.builder = "disband"
	m.config, m.confRev = p.conf(m.q)
	m.txn = m.q.Disband(m.confRev, left)
	return nil
}

// written is the key of the job that somebody writes by hand, which keeps its lease.
func (p *play) written(words []string) (h home, where job.Place, kv *mvccpb.KeyValue, err error) {
	l, ok := p.find(words[0])
	if !ok {
		return h, 0, nil, cannot("there is no job %s that can be read", words[0])
	}
	h = p.homeOf(words[0])
	return h, l.Where, p.lookup(h.q.Key(l.Where, h.id)), nil
}

// stageGarble makes a record unreadable by hand.
func stageGarble(p *play, words []string) (string, error) {
	_, _, kv, err := p.written(words)
	if err != nil {
		return "", err
	}
	p.scribble(words[0], kv, fmt.Sprintf("garbage%d", p.spent.hands))
	return "", nil
}

// stageRename writes a record by hand that names another job.
func stageRename(p *play, words []string) (string, error) {
	_, _, kv, err := p.written(words)
	if err != nil {
		return "", err
	}
	r, err := decodeOnce(kv.Value)
	if err != nil {
		return "", err
	}
	renamed := *r
	renamed.ID, renamed.Nonce = "other", p.fresh(0x40+p.spent.hands)
	value, err := renamed.Encode()
	if err == nil {
		p.scribble(words[0], kv, string(value))
	}
	return "", err
}

func (p *play) scribble(name string, kv *mvccpb.KeyValue, value string) {
	p.spent.hands++
	p.put(string(kv.Key), value, kv.Lease)
	p.told = p.told.copy()
	j := &p.told.jobs[p.index(name)]
	j.garbled, j.claimed, j.assigned, j.owner = value, false, false, 0
}

// stageLitter writes what cannot be read where a job would be that is dead.
func stageLitter(p *play, words []string) (string, error) {
	h, where, _, err := p.written(words)
	if err != nil || where != job.InDead {
		return "", cannot("it is not dead")
	}
	p.spent.hands++
	p.put(h.q.Key(job.InJobs, h.id), fmt.Sprintf("litter%d", p.spent.hands), 0)
	p.told = p.told.copy()
	p.told.jobs[p.index(words[0])].littered = true
	return "", nil
}
