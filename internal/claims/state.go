package claims

// state is where a claim stands, and so who must end it.
type state int

const (
	claiming state = iota // its Txn is on its way: the call that claims
	held                  // in use: its holder
	closing               // a closing write is on its way: the closer
	stray                 // nobody uses it: the reconciler, for as long as the session lives
	over                  // etcd shows it no more, or never did
)

var stateNames = map[state]string{claiming: "claiming", held: "held", closing: "closing", stray: "stray", over: "over"}

func (s state) String() string { return stateNames[s] }

// event is what happens to a claim.
type event int

const (
	made     event = iota // its Txn was applied
	notMade               // its Txn was certainly not applied
	closes                // somebody begins to close it
	closed                // a closing write was applied, or the claim is somebody else's
	open                  // a closing write was certainly not applied
	unknown               // what became of a closing write cannot be found out
	deserted              // whoever was to end it has gone
)

var eventNames = map[event]string{made: "made", notMade: "not made", closes: "close", closed: "closed", open: "open again", unknown: "unknown", deserted: "deserted"}

func (e event) String() string { return eventNames[e] }

// after is the whole state machine. An event that is not listed changes nothing: it
// came late, such as a caller that leaves a claim which is over.
//
//	claiming --made--> held --close--> closing --closed--> over
//	   |                |  ^             |  |
//	   |                |  +--open again-+  +--unknown--+
//	   +---deserted-----+-------------------deserted----+--> stray --closed--> over
func (s state) after(e event) state {
	switch {
	case s == claiming && e == made:
		return held
	case s == claiming && e == notMade:
		return over
	case s == held && e == closes:
		return closing
	case s == closing && e == open:
		return held
	case s == closing && e == unknown, s != over && e == deserted:
		return stray
	case s != claiming && e == closed:
		return over
	}
	return s
}
