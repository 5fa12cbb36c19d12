package claims

// State and Event are the state machine of a claim, for proofs that play a book.
type (
	State = state
	Event = event
)

// The states.
const (
	Claiming, Held, Closing, Stray, Over = claiming, held, closing, stray, over
)

// The events.
const (
	Made, NotMade, Closes, Closed, Open, Unknown, Deserted = made, notMade, closes, closed, open, unknown, deserted
)

// After is where a claim stands once that has happened.
func (s State) After(e Event) State { return s.after(e) }
