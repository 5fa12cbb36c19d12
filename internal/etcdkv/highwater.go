package etcdkv

import (
	"cmp"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// highWater is the highest revision that the cluster is known to have reached.
// It counts histories: a rewind begins a new one, with a mark of its own.
type highWater struct {
	mu      sync.Mutex
	at      Mark
	rewound chan struct{}
}

// Mark is a reading of the high-water mark. Taken before a request is sent, it
// is what the answer must reach.
type Mark struct {
	rev     int64
	history int
	cluster uint64 // 0: not known
}

// belies tells that an answer cannot be of the history that the mark was read in: it is
// below the mark, or another cluster's, as after a restore under another token.
func (m Mark) belies(header *pb.ResponseHeader) bool {
	return header.Revision < m.rev || /*mutant:rewind-other-cluster*/ m.cluster != 0 && header.ClusterId != m.cluster
}

func newHighWater() *highWater { return &highWater{rewound: make(chan struct{})} }

func (h *highWater) read() Mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// raise lifts the mark to revision rev of that cluster, if it belongs to the history that
// is current: what was sent before a rewind can be answered from either side of it.
func (h *highWater) raise(before Mark, rev int64, cluster uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before.history == h.at.history { //mutant:rewind-lifts-nothing
		h.at.rev = max(h.at.rev, rev)
		h.at.cluster = cmp.Or(h.at.cluster, cluster)
	}
}

// rewind begins a new history where a linearizable answer is that belies before. It
// tells whether this is news: a rewind is announced once, however many requests run
// into it.
func (h *highWater) rewind(before Mark, now *pb.ResponseHeader) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before.history != h.at.history { //mutant:rewind-once
		return false
	}
	h.at = Mark{rev: now.Revision, history: h.at.history + 1, cluster: now.ClusterId}
	close(h.rewound)
	h.rewound = make(chan struct{})
	return true
}

// next is closed at the next rewind.
func (h *highWater) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rewound
}
