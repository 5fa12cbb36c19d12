package coord

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// One rewind is announced once, however many requests run into it, and what was sent
// before it does not lift the new history's mark.
func TestHighWater(t *testing.T) {
	h := newHighWater()
	h.raise(h.read(), 100)
	before := h.read()
	if !h.rewind(before, 40) {
		t.Error("a rewind is no news")
	}
	if h.rewind(before, 41) {
		t.Error("another request ran into the same rewind, and it was announced again")
	}
	h.raise(before, 100)
	if got := h.read().rev; got != 40 {
		t.Errorf("the mark is at %d, lifted by an answer from before the rewind; want 40", got)
	}
	h.raise(h.read(), 50)
	if got := h.read().rev; got != 50 {
		t.Errorf("the mark is at %d, want 50", got)
	}
}

// lowOnce gives one get a revision that is too low.
type lowOnce struct {
	*stubEtcd
	by int64
}

func (b *lowOnce) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := b.stubEtcd.get(ctx, key, opts...)
	if err == nil {
		resp.Header.Revision -= b.by
		b.by = 0
	}
	return resp, err
}

// One answer below the mark that the next read does not confirm is no rewind: it would
// end every session for nothing.
func TestOneLowAnswerIsNoRewind(t *testing.T) {
	keys, err := NewKeyspace("")
	if err != nil {
		t.Fatal(err)
	}
	b := &lowOnce{stubEtcd: newStubEtcd()}
	s := newStore(b, keys, nil)
	rewound := s.Rewound()
	for _, by := range []int64{0, 60, 0} {
		b.by = by
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("an answer %d below: %v", by, err)
		}
	}
	select {
	case <-rewound:
		t.Error("a rewind was announced")
	default:
	}
	b.rewind(60)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, ErrHistoryRewound) {
		t.Errorf("after a rewind: %v", err)
	}
}

// A claim that comes while Close gives the others back must not slip in behind it.
func TestNothingIsEnteredBehindClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStubEtcd().open(t, SessionConfig{})
		if err := s.book.Close(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		_, _ = s.Track("late", nil), s.Keep("late", nil) // whose session is not over yet
		if n := s.book.Len(); n != 0 {
			t.Errorf("%d claims were entered that nobody gives back", n)
		}
	})
}
