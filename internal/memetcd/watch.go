package memetcd

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Events returns what happened to the keys from key to end, as [Store.Range] takes
// them, from a revision on: what a watch that starts there is sent, oldest first. A
// start below the compacted revision is refused; one in the future has no events yet.
func (s *Store) Events(key, end []byte, from int64) ([]*mvccpb.Event, error) {
	if from < s.compacted {
		return nil, rpctypes.ErrGRPCCompacted
	}
	var events []*mvccpb.Event
	for v := s.head; v != nil && v.rev >= from; v = v.prev {
		for _, ev := range slices.Backward(v.events) {
			if len(within([]*mvccpb.KeyValue{ev.Kv}, key, end)) == 1 {
				events = append(events, ev)
			}
		}
	}
	slices.Reverse(events)
	return events, nil
}

// Last returns what the last revision did. It must not be changed.
func (s *Store) Last() []*mvccpb.Event {
	if s.head == nil {
		return nil
	}
	return s.head.events
}
