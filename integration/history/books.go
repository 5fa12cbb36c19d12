package history

import (
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// books keep what a watch told, and hold it to what etcd promises.
type books struct {
	prefixes []string
	from     int64 // the first revision
	rev      int64 // of the last event
	progress int64 // what progress promised
	// repeated is the revision up to which events may come again, since the watch was
	// opened there; 0 once something newer came.
	repeated int64
	// versions are those of the keys that exist; whole tells that keys which are not
	// among them do not exist.
	versions map[string]int64
	whole    bool
	events   []Event
}

func newBooks(from int64, prefixes []string) books {
	return books{prefixes: prefixes, from: from, rev: from - 1, versions: map[string]int64{}, whole: from <= 1}
}

// seen is the revision up to which everything was told.
func (b *books) seen() int64 { return max(b.rev, b.progress) }

// opened tells that a watch begins anew at a revision.
func (b *books) opened(from int64) { b.repeated = min(from, b.rev) }

// take takes one response down. The error says which promise it breaks.
func (b *books) take(resp clientv3.WatchResponse, now int64) error {
	events := resp.Events
	if len(events) == 0 {
		b.progress = max(b.progress, resp.Header.GetRevision())
		return nil
	}
	for len(events) > 0 && events[0].Kv.ModRevision <= b.repeated {
		events = events[1:]
	}
	if len(events) == 0 {
		return nil
	}
	b.repeated = 0 // from here on nothing comes twice
	first := events[0].Kv.ModRevision
	switch {
	case first < b.from:
		return fmt.Errorf("an event of revision %d on a watch from revision %d", first, b.from)
	case first <= b.rev:
		return fmt.Errorf("not ordered, or not whole: an event of revision %d after a response that ended at %d", first, b.rev)
	case first <= b.progress:
		return fmt.Errorf("no bookmark: an event of revision %d after progress promised %d", first, b.progress)
	}
	at := map[string]bool{}
	for _, ev := range events {
		switch rev := ev.Kv.ModRevision; {
		case rev < b.rev:
			return fmt.Errorf("not ordered: revision %d after %d in one response", rev, b.rev)
		case rev > b.rev:
			b.rev = rev
			clear(at)
		}
		if at[string(ev.Kv.Key)] {
			return fmt.Errorf("not unique: key %s twice at revision %d", ev.Kv.Key, b.rev)
		}
		at[string(ev.Kv.Key)] = true
		if err := b.follow(ev); err != nil {
			return err
		}
		b.keep(ev, now)
	}
	return nil
}

// follow holds the versions of a key to go up one by one: so no event of it is
// missing.
func (b *books) follow(ev *clientv3.Event) error {
	key, rev := string(ev.Kv.Key), ev.Kv.ModRevision
	before, known := b.versions[key]
	if ev.Type == clientv3.EventTypeDelete {
		if !known && b.whole {
			return fmt.Errorf("not reliable: key %s, deleted at revision %d, was never seen", key, rev)
		}
		if delete(b.versions, key); !b.whole {
			b.versions[key] = 0
		}
		return nil
	}
	if (known || b.whole) && ev.Kv.Version != before+1 {
		return fmt.Errorf("not reliable: key %s has version %d at revision %d, version %d was seen before", key, ev.Kv.Version, rev, before)
	}
	b.versions[key] = ev.Kv.Version
	return nil
}

// keep keeps an event that is wanted. The values of lanes say nothing.
func (b *books) keep(ev *clientv3.Event, now int64) {
	key := string(ev.Kv.Key)
	if !slices.ContainsFunc(b.prefixes, func(p string) bool { return strings.HasPrefix(key, p) }) {
		return
	}
	e := Event{Rev: ev.Kv.ModRevision, Key: key, Seen: now}
	if ev.Type == clientv3.EventTypeDelete {
		e.Delete = true
	} else {
		e.CreateRev, e.Lease = ev.Kv.CreateRevision, ev.Kv.Lease
		if !strings.HasPrefix(key, b.prefixes[0]+"lanes/") {
			e.Value = ev.Kv.Value
		}
	}
	b.events = append(b.events, e)
}
