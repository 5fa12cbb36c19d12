package coord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/claims"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// holderRecord is the value of a claimed slot. Without an owner the slot is free:
// it is left like that where foreign keys keep it from being deleted, and where it
// was freed by force, to say so.
type holderRecord struct {
	Nonce    string    `json:"w"`
	Owner    string    `json:"owner,omitempty"`
	OwnerRev int64     `json:"owner_rev,omitempty,string"`
	Since    time.Time `json:"since,omitzero"`
	// By and Reason tell who took the claim from the owner before, by force.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// owned tells whether somebody can be the owner: a record without a revision of
// its owner's session could never be proven dead.
func (r holderRecord) owned() bool { return r.Owner != "" && r.OwnerRev > 0 }

// waiterRecord is the value of a waiting entry. Claim is the head nonce of the
// claim to come: whoever hands the claim over writes it, so that the waiter knows
// its own.
type waiterRecord struct {
	Nonce      string    `json:"w"`
	Session    string    `json:"session"`
	SessionRev int64     `json:"session_rev,string"`
	Claim      string    `json:"claim"`
	Since      time.Time `json:"since,omitzero"`
}

// sound tells whether the claim can be handed over to the one who wrote it.
func (r waiterRecord) sound() bool {
	return r.Session != "" && r.SessionRev > 0 && keyspace.NonceOf([]byte(keyspace.Head(r.Claim))) == r.Claim && r.Claim != ""
}

// slotView is a slot as it was read.
type slotView struct {
	key   string
	rev   int64 // 0: absent
	nonce string
	holderRecord
	dead bool // its owner's session is gone
}

// open tells whether the slot can be claimed.
func (s slotView) open() bool { return s.Owner == "" || s.dead }

// entryView is a waiting entry as it was read.
type entryView struct {
	key       string
	rev       int64
	createRev int64
	waiterRecord
}

// claimView is everything about a name, at one revision.
type claimView struct {
	slots   []slotView
	entries []entryView // oldest first
	foreign bool        // there are keys among the entries that are none
	rev     int64
}

// viewOf reads a view out of the keys. Keys that are not of our making block
// nobody: they are no entries.
func viewOf(k keyspace.ClaimKeys, slots, entries []*mvccpb.KeyValue, rev int64) claimView {
	v := claimView{rev: rev}
	for i := range k.N {
		s := slotView{key: k.Slot(i)}
		if j := slices.IndexFunc(slots, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == s.key }); j >= 0 {
			s.rev, s.nonce = slots[j].ModRevision, keyspace.NonceOf(slots[j].Value)
			if err := json.Unmarshal(slots[j].Value, &s.holderRecord); err != nil || s.nonce == "" || s.Owner != "" && !s.owned() {
				// Nobody owns a record that nobody can read, and its revision guards it.
				s.holderRecord, s.nonce = holderRecord{}, ""
			}
		}
		v.slots = append(v.slots, s)
	}
	for _, kv := range entries {
		e := entryView{key: string(kv.Key), rev: kv.ModRevision, createRev: kv.CreateRevision}
		if json.Unmarshal(kv.Value, &e.waiterRecord) != nil || kv.Lease == 0 || !e.sound() ||
			!strings.HasPrefix(e.key, k.Wait+e.Session+"-") || strings.Contains(e.key[len(k.Wait):], "/") {
			v.foreign = true
			continue
		}
		v.entries = append(v.entries, e)
	}
	slices.SortFunc(v.entries, func(a, b entryView) int {
		return cmp.Or(cmp.Compare(a.createRev, b.createRev), cmp.Compare(a.key, b.key))
	})
	return v
}

// step is what somebody who wants a claim does next.
type step int

const (
	stepGranted step = iota // the claim is ours already
	stepTake                // claim slot
	stepEnqueue             // put a waiting entry
	stepFollow              // wait for the entry before ours
	stepHead                // we are next: wait for the slots and their owners
	stepGone                // our entry was taken away, and no claim given for it
)

// decide is the next step of the one who waits under entry key ("" without an
// entry) for a claim with that nonce. It is pure. First come, first served: with
// i others ahead, only the i-th open slot is ours.
func (v claimView) decide(key, nonce string) (s step, slot slotView, before entryView) {
	for _, s := range v.slots {
		if s.nonce == nonce {
			return stepGranted, s, before
		}
	}
	place := slices.IndexFunc(v.entries, func(e entryView) bool { return e.key == key })
	ahead := place
	switch {
	case place < 0 && key != "":
		return stepGone, slot, before
	case place < 0:
		ahead = len(v.entries)
	}
	for _, s := range v.slots {
		if s.open() {
			if ahead == 0 {
				return stepTake, s, before
			}
			ahead--
		}
	}
	switch {
	case key == "":
		return stepEnqueue, slot, before
	case place > 0:
		return stepFollow, slot, v.entries[place-1]
	}
	return stepHead, slot, before
}

// claimer is who claims: a session, and the nonce of the claim.
type claimer struct {
	sid   string
	rev   int64
	nonce string
}

// claimTxns builds the Txns of locks, leaderships and permits, as plain values.
type claimTxns struct {
	space keyspace.Keyspace
	keys  keyspace.ClaimKeys
}

func (t claimTxns) lives(sid string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.space.Session(sid)), "=", rev)
}

func holderValue(me claimer, now time.Time) string {
	return record(holderRecord{Nonce: me.nonce, Owner: me.sid, OwnerRev: me.rev, Since: now.UTC().Truncate(time.Millisecond)})
}

// record marshals a record of ours, which cannot fail.
func record(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("coord: " + err.Error())
	}
	return string(b)
}

// take claims an open slot. The guard closes the race with everybody else who
// wants it; gone(owner) keeps a living owner's claim from being taken on stale
// knowledge; our session keeps a dying process from claiming; our entry, where we
// have one, keeps a claim from being made for somebody who withdrew.
func (t claimTxns) take(s slotView, me claimer, entry string, entryRev int64, now time.Time) etcdkv.Txn {
	txn := etcdkv.Txn{
		Origin: "hold",
		If: append(
			etcdkv.GuardOf(s.key, s.rev, s.nonce), //mutant:take-slot
			t.lives(me.sid, me.rev)),
		Then: []clientv3.Op{clientv3.OpPut(s.key, holderValue(me, now))},
		Else: []clientv3.Op{clientv3.OpGet(s.key), clientv3.OpGet(t.space.Session(me.sid))},
	}
	if s.Owner != "" {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(t.space.Session(s.Owner)), "!=", s.OwnerRev)) //mutant:take-owner-gone
	}
	if entry != "" {
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(entry), "=", entryRev)) //mutant:take-entry
		txn.Then = append(txn.Then, clientv3.OpDelete(entry))
	}
	return txn
}

// enqueue puts a waiting entry. The guards of all slots close the race with a
// release that saw no waiter: after it a slot has another revision, and we look
// again instead of waiting for nobody.
func (t claimTxns) enqueue(v claimView, me claimer, entry string, lease clientv3.LeaseID, now time.Time) etcdkv.Txn {
	txn := etcdkv.Txn{
		Origin: "hold",
		If:     []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(entry), "=", 0), t.lives(me.sid, me.rev)},
		Then: []clientv3.Op{clientv3.OpPut(entry, record(waiterRecord{
			Nonce: keyspace.NewNonce(), Session: me.sid, SessionRev: me.rev, Claim: me.nonce, Since: now.UTC().Truncate(time.Millisecond),
		}), clientv3.WithLease(lease))},
		Else: []clientv3.Op{clientv3.OpGet(entry), clientv3.OpGet(t.space.Session(me.sid))},
	}
	for _, s := range v.slots {
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(s.key), "=", s.rev)) //mutant:wait-slots
	}
	return txn
}

// release gives a claim up: to the first waiter, where there is one, so that
// nobody barges in; else the slot is deleted, or freed where foreign keys are in
// the way. Wrote is the nonce of the record that it puts, "" when it deletes.
func (t claimTxns) release(f etcdkv.Fence, v claimView, now time.Time) (txn etcdkv.Txn, wrote string) {
	if len(v.entries) > 0 { //mutant:release-hands-over
		return t.transfer(f, v.entries[0], now), v.entries[0].Claim
	}
	txn = etcdkv.Txn{
		Origin: "hold",
		If:     f.Cmps(), //mutant:release-fence
		Else:   []clientv3.Op{clientv3.OpGet(f.Key)},
	}
	if v.foreign {
		wrote = keyspace.NewNonce()
		txn.Then = []clientv3.Op{clientv3.OpPut(f.Key, record(holderRecord{Nonce: wrote}))}
		return txn, wrote
	}
	// A waiter that came since we looked must not be left behind an absent slot,
	// which newcomers take without looking for waiters.
	txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(t.keys.Wait), "=", 0).WithPrefix()) //mutant:release-no-waiters
	txn.Then = []clientv3.Op{clientv3.OpDelete(f.Key)}
	return txn, ""
}

// transfer makes a waiter the owner. Its entry keeps the claim from one that
// withdrew, its session from one that is dead: either would leave a claim that
// nobody knows he holds.
func (t claimTxns) transfer(f etcdkv.Fence, to entryView, now time.Time) etcdkv.Txn {
	me := claimer{sid: to.Session, rev: to.SessionRev, nonce: to.Claim}
	return etcdkv.Txn{
		Origin: "hold",
		If: append(
			f.Cmps(),                           //mutant:transfer-fence
			t.lives(to.Session, to.SessionRev), //mutant:transfer-lives
			clientv3.Compare(clientv3.ModRevision(to.key), "=", to.rev)), //mutant:transfer-entry
		Then: []clientv3.Op{clientv3.OpPut(f.Key, holderValue(me, now)), clientv3.OpDelete(to.key)},
		Else: []clientv3.Op{clientv3.OpGet(f.Key)},
	}
}

// withdraw takes a waiting entry back. The compare tells, by failing, that the
// claim may have been handed to us meanwhile.
func (t claimTxns) withdraw(entry string, rev int64) etcdkv.Txn {
	return etcdkv.Txn{
		Origin: "hold",
		If:     []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(entry), "=", rev)}, //mutant:withdraw-entry
		Then:   []clientv3.Op{clientv3.OpDelete(entry)},
		Else:   []clientv3.Op{clientv3.OpGet(entry)},
	}
}

// followedBy judges the first change behind a claim, nil where there was none.
func followedBy(ev *clientv3.Event, f etcdkv.Fence, wrote []string) (claims.Verdict, error) {
	switch {
	case ev == nil:
		return claims.Refused, nil
	case ev.Type == clientv3.EventTypeDelete && /*mutant:followed-delete*/ slices.Contains(wrote, ""),
		ev.Type == clientv3.EventTypePut && /*mutant:followed-put*/ slices.Contains(wrote, keyspace.NonceOf(ev.Kv.Value)):
		return claims.Applied, nil
	}
	return claims.Fenced, &fault.FencedError{Key: f.Key, Wanted: f.Token, Current: ev.Kv.ModRevision}
}

// current tells whether the view shows the claim of a fence.
func (v claimView) current(f etcdkv.Fence) error {
	for _, s := range v.slots {
		if s.key != f.Key {
			continue
		}
		if s.rev == f.Token && s.nonce == f.Nonce {
			return nil
		}
		return &fault.FencedError{Key: f.Key, Wanted: f.Token, Current: s.rev}
	}
	return &fault.FencedError{Key: f.Key, Wanted: f.Token}
}

// waiter is the first entry of a session.
func (v claimView) waiter(sid, what string) (entryView, error) {
	for _, e := range v.entries {
		if e.Session == sid {
			return e, nil
		}
	}
	return entryView{}, fmt.Errorf("%w: session %s does not wait for %s", fault.ErrRefused, sid, what)
}
