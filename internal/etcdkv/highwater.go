package etcdkv

import "sync"

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
}

func newHighWater() *highWater { return &highWater{rewound: make(chan struct{})} }

func (h *highWater) read() Mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// raise lifts the mark to rev, if rev belongs to the history that is current:
// what was sent before a rewind can be answered from either side of it.
func (h *highWater) raise(before Mark, rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before.history == h.at.history { //mutant:rewind-lifts-nothing
		h.at.rev = max(h.at.rev, rev)
	}
}

// rewind begins a new history at rev, which a linearizable answer reported
// although before had been reached. It tells whether this is news: a rewind is
// announced once, however many requests run into it.
func (h *highWater) rewind(before Mark, rev int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before.history != h.at.history { //mutant:rewind-once
		return false
	}
	h.at = Mark{rev: rev, history: h.at.history + 1}
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
