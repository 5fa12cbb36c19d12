package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var s2LateRenewals = &Check{
	Code: "S2", Severity: Warning,
	Means: "a session's lease was nearly at its end each time that it was looked at: its process renews too late, is paused, or is gone. Only what shows within the window is seen",
	needs: []string{dirSessions},
	run: func(ctx context.Context, e *Exam) (string, []*Finding, error) {
		low := map[string]*lateLease{}
		for _, s := range e.look.sessionsOf() {
			if s.lease != 0 {
				low[s.id] = &lateLease{session: s}
			}
		}
		for sample := range samples {
			if len(low) == 0 {
				return "", nil, nil
			}
			if sample > 0 {
				if err := pause(ctx, e.opts.Window/samples); err != nil {
					return "", nil, err
				}
			}
			e.sample(ctx, low)
		}
		var found []*Finding
		for _, s := range e.look.sessionsOf() {
			if l := low[s.id]; l != nil {
				found = append(found, l.finding())
			}
		}
		return "", found, nil
	},
}

const (
	// samples is how often a lease must be found near its end.
	samples = 3
	// maxSampled bounds how many sessions are asked for.
	maxSampled = 5000
)

// lateLease is a lease that was near its end at every look so far.
type lateLease struct {
	*session
	ttl, granted int64
	whole        int64 // what it was granted, at the last look
	renewed      bool
	seen         bool
}

func (l *lateLease) finding() *Finding {
	f := &Finding{
		Severity: Warning, What: "session renews late", Subject: "session/" + l.id, Key: string(l.kv.Key), Lease: fmt.Sprintf("%016x", l.lease),
		Detail: fmt.Sprintf("%s: %ds of %ds left at the last of %d looks, and not renewed in between", l.id, l.ttl, l.granted, samples),
		Advice: "look at that process, its machine and its way to etcd",
		still:  map[string]int64{string(l.kv.Key): l.written},
	}
	if l.renewed {
		f.Detail = fmt.Sprintf("%s: at most a third of %ds was left at each of %d looks, although it renewed in between", l.id, l.granted, samples)
	}
	return f
}

// sample asks for all leases, and forgets those that are not near their end.
func (e *Exam) sample(ctx context.Context, low map[string]*lateLease) {
	ids := slices.Sorted(maps.Keys(low))
	for _, id := range ids[min(len(ids), maxSampled):] {
		delete(low, id)
	}
	ids = ids[:min(len(ids), maxSampled)]
	late := make([]bool, len(ids))
	atOnce(len(ids), 16, func(i int) { late[i] = low[ids[i]].look(ctx, e.client) })
	for i, id := range ids {
		e.granted[id] = time.Duration(low[id].whole) * time.Second
		if !late[i] {
			delete(low, id)
		}
	}
}

// look asks for the lease, and tells whether it is near its end. One that is gone has ended with its session: nothing
// lasts.
func (l *lateLease) look(ctx context.Context, client *clientv3.Client) bool {
	resp, err := client.TimeToLive(ctx, clientv3.LeaseID(l.lease))
	if err == nil {
		l.whole = resp.GrantedTTL
	}
	if err != nil || resp.TTL <= 0 || 3*resp.TTL > resp.GrantedTTL {
		return false
	}
	l.renewed = l.renewed || l.seen && resp.TTL > l.ttl
	l.ttl, l.granted, l.seen = resp.TTL, resp.GrantedTTL, true
	return true
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
