// Package line is the lines in which sessions wait for a claim: of a lock, of an
// election, of the permits of a semaphore. It reads them, decides what is next, and builds
// the Txns; who claims, and holds, is a session's business.
package line

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

// Slot is a slot as it was read.
type Slot struct {
	Key   string
	Rev   int64 // 0: absent
	Nonce string
	holderRecord
	dead bool // its owner's session is gone
}

// open tells whether the slot can be claimed.
func (s Slot) open() bool { return s.Owner == "" || s.dead }

// Entry is a waiting entry as it was read.
type Entry struct {
	Key       string
	Rev       int64
	createRev int64
	waiterRecord
}

// View is everything about a name, at one revision.
type View struct {
	Slots   []Slot
	Entries []Entry // oldest first
	foreign bool    // there are keys among the entries that are none
	Rev     int64
}

// viewOf reads a view out of the keys. Keys that are not of our making block
// nobody: they are no entries.
func viewOf(k keyspace.ClaimKeys, slots, entries []*mvccpb.KeyValue, rev int64) View {
	v := View{Rev: rev}
	for i := range k.N {
		s := Slot{Key: k.Slot(i)}
		if j := slices.IndexFunc(slots, func(kv *mvccpb.KeyValue) bool { return string(kv.Key) == s.Key }); j >= 0 {
			s.Rev, s.Nonce = slots[j].ModRevision, keyspace.NonceOf(slots[j].Value)
			if err := json.Unmarshal(slots[j].Value, &s.holderRecord); err != nil || s.Nonce == "" || s.Owner != "" && !s.owned() {
				// Nobody owns a record that nobody can read, and its revision guards it.
				s.holderRecord, s.Nonce = holderRecord{}, ""
			}
		}
		v.Slots = append(v.Slots, s)
	}
	for _, kv := range entries {
		e := Entry{Key: string(kv.Key), Rev: kv.ModRevision, createRev: kv.CreateRevision}
		if json.Unmarshal(kv.Value, &e.waiterRecord) != nil || kv.Lease == 0 || !e.sound() ||
			!strings.HasPrefix(e.Key, k.Wait+e.Session+"-") || strings.Contains(e.Key[len(k.Wait):], "/") {
			v.foreign = true
			continue
		}
		v.Entries = append(v.Entries, e)
	}
	slices.SortFunc(v.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.createRev, b.createRev), cmp.Compare(a.Key, b.Key))
	})
	return v
}

// step is what somebody who wants a claim does next.
type step int

const (
	StepGranted step = iota // the claim is ours already
	StepTake                // claim slot
	StepEnqueue             // put a waiting entry
	StepFollow              // wait for the entry before ours
	StepHead                // we are next: wait for the slots and their owners
	StepGone                // our entry was taken away, and no claim given for it
)

// Decide is the next step of the one who waits under entry key ("" without an
// entry) for a claim with that nonce. It is pure. First come, first served: with
// i others ahead, only the i-th open slot is ours.
func (v View) Decide(key, nonce string) (s step, slot Slot, before Entry) {
	for _, s := range v.Slots {
		if s.Nonce == nonce {
			return StepGranted, s, before
		}
	}
	place := slices.IndexFunc(v.Entries, func(e Entry) bool { return e.Key == key })
	ahead := place
	switch {
	case place < 0 && key != "":
		return StepGone, slot, before
	case place < 0:
		ahead = len(v.Entries)
	}
	for _, s := range v.Slots {
		if s.open() {
			if ahead == 0 {
				return StepTake, s, before
			}
			ahead--
		}
	}
	switch {
	case key == "":
		return StepEnqueue, slot, before
	case place > 0:
		return StepFollow, slot, v.Entries[place-1]
	}
	return StepHead, slot, before
}

// Claimant is who claims: a session, and the nonce of the claim.
type Claimant struct {
	Session string
	Rev     int64
	Nonce   string
}

// Txns builds the Txns of locks, leaderships and permits, as plain values.
type Txns struct {
	Space keyspace.Keyspace
	Keys  keyspace.ClaimKeys
}

func (t Txns) lives(sid string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.Space.Session(sid)), "=", rev)
}

func holderValue(me Claimant, now time.Time) string {
	return record(holderRecord{Nonce: me.Nonce, Owner: me.Session, OwnerRev: me.Rev, Since: now.UTC().Truncate(time.Millisecond)})
}

// record marshals a record of ours, which cannot fail.
func record(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("line: " + err.Error())
	}
	return string(b)
}

// Take claims an open slot. The guard closes the race with everybody else who
// wants it; gone(owner) keeps a living owner's claim from being taken on stale
// knowledge; our session keeps a dying process from claiming; our entry, where we
// have one, keeps a claim from being made for somebody who withdrew.
func (t Txns) Take(s Slot, me Claimant, entry string, entryRev int64, now time.Time) etcdkv.Txn {
	txn := etcdkv.Txn{
		Origin: "hold",
		If: append(
			etcdkv.GuardOf(s.Key, s.Rev, s.Nonce), //mutant:take-slot
			t.lives(me.Session, me.Rev)),
		Then: []clientv3.Op{clientv3.OpPut(s.Key, holderValue(me, now))},
		Else: []clientv3.Op{clientv3.OpGet(s.Key), clientv3.OpGet(t.Space.Session(me.Session))},
	}
	if s.Owner != "" {
		txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(t.Space.Session(s.Owner)), "!=", s.OwnerRev)) //mutant:take-owner-gone
	}
	if entry != "" {
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(entry), "=", entryRev)) //mutant:take-entry
		txn.Then = append(txn.Then, clientv3.OpDelete(entry))
	}
	return txn
}

// Enqueue puts a waiting entry. The guards of all slots close the race with a
// release that saw no waiter: after it a slot has another revision, and we look
// again instead of waiting for nobody.
func (t Txns) Enqueue(v View, me Claimant, entry string, lease clientv3.LeaseID, now time.Time) etcdkv.Txn {
	txn := etcdkv.Txn{
		Origin: "hold",
		If:     []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(entry), "=", 0), t.lives(me.Session, me.Rev)},
		Then: []clientv3.Op{clientv3.OpPut(entry, record(waiterRecord{
			Nonce: keyspace.NewNonce(), Session: me.Session, SessionRev: me.Rev, Claim: me.Nonce, Since: now.UTC().Truncate(time.Millisecond),
		}), clientv3.WithLease(lease))},
		Else: []clientv3.Op{clientv3.OpGet(entry), clientv3.OpGet(t.Space.Session(me.Session))},
	}
	for _, s := range v.Slots {
		txn.If = append(txn.If, clientv3.Compare(clientv3.ModRevision(s.Key), "=", s.Rev)) //mutant:wait-slots
	}
	return txn
}

// Release gives a claim up: to the first waiter, where there is one, so that
// nobody barges in; else the slot is deleted, or freed where foreign keys are in
// the way. Wrote is the nonce of the record that it puts, "" when it deletes.
func (t Txns) Release(f etcdkv.Fence, v View, now time.Time) (txn etcdkv.Txn, wrote string) {
	if len(v.Entries) > 0 { //mutant:release-hands-over
		return t.Transfer(f, v.Entries[0], now), v.Entries[0].Claim
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
	txn.If = append(txn.If, clientv3.Compare(clientv3.CreateRevision(t.Keys.Wait), "=", 0).WithPrefix()) //mutant:release-no-waiters
	txn.Then = []clientv3.Op{clientv3.OpDelete(f.Key)}
	return txn, ""
}

// Transfer makes a waiter the owner. Its entry keeps the claim from one that
// withdrew, its session from one that is dead: either would leave a claim that
// nobody knows he holds.
func (t Txns) Transfer(f etcdkv.Fence, to Entry, now time.Time) etcdkv.Txn {
	me := Claimant{Session: to.Session, Rev: to.SessionRev, Nonce: to.Claim}
	return etcdkv.Txn{
		Origin: "hold",
		If: append(
			f.Cmps(),                           //mutant:transfer-fence
			t.lives(to.Session, to.SessionRev), //mutant:transfer-lives
			clientv3.Compare(clientv3.ModRevision(to.Key), "=", to.Rev)), //mutant:transfer-entry
		Then: []clientv3.Op{clientv3.OpPut(f.Key, holderValue(me, now)), clientv3.OpDelete(to.Key)},
		Else: []clientv3.Op{clientv3.OpGet(f.Key)},
	}
}

// Withdraw takes a waiting entry back. The compare tells, by failing, that the
// claim may have been handed to us meanwhile.
func (t Txns) Withdraw(entry string, rev int64) etcdkv.Txn {
	return etcdkv.Txn{
		Origin: "hold",
		If:     []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(entry), "=", rev)}, //mutant:withdraw-entry
		Then:   []clientv3.Op{clientv3.OpDelete(entry)},
		Else:   []clientv3.Op{clientv3.OpGet(entry)},
	}
}

// FollowedBy judges the first change behind a claim, nil where there was none.
func FollowedBy(ev *clientv3.Event, f etcdkv.Fence, wrote []string) (claims.Verdict, error) {
	switch {
	case ev == nil:
		return claims.Refused, nil
	case ev.Type == clientv3.EventTypeDelete && /*mutant:followed-delete*/ slices.Contains(wrote, ""),
		ev.Type == clientv3.EventTypePut && /*mutant:followed-put*/ slices.Contains(wrote, keyspace.NonceOf(ev.Kv.Value)):
		return claims.Applied, nil
	}
	return claims.Fenced, &fault.FencedError{Key: f.Key, Wanted: f.Token, Current: ev.Kv.ModRevision}
}

// Current tells whether the view shows the claim of a fence.
func (v View) Current(f etcdkv.Fence) error {
	for _, s := range v.Slots {
		if s.Key != f.Key {
			continue
		}
		if s.Rev == f.Token && s.Nonce == f.Nonce {
			return nil
		}
		return &fault.FencedError{Key: f.Key, Wanted: f.Token, Current: s.Rev}
	}
	return &fault.FencedError{Key: f.Key, Wanted: f.Token}
}

// Waiter is the first entry of a session.
func (v View) Waiter(sid, what string) (Entry, error) {
	for _, e := range v.Entries {
		if e.Session == sid {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("%w: session %s does not wait for %s", fault.ErrRefused, sid, what)
}
