package faults

import (
	"math/rand/v2"
	"time"
)

// Weighted is a fault and how often it is drawn, relative to others.
type Weighted struct {
	Fault  Fault
	Weight int
}

// Menu is every fault of this package, and some that are made of them, for a
// cluster of that many members. The weights favour what is cheap to heal.
func Menu(members int) []Weighted {
	menu := []Weighted{
		{Kill{}, 4},
		{Freeze{}, 4},
		{Pause{}, 2},
		{Pause{Reach: Network}, 3},
		{LoseAnswers{}, 4},
		{LoseAnswers{Reach: Network}, 3},
		{Late{}, 4},
		{Late{Reach: Network}, 3},
		{Drop{}, 2},
		{Drop{Reach: Service}, 2},
		{Refuse{}, 2},
		{Refuse{Reach: Service}, 1},
		{Slow{}, 2},
		{Slow{Reach: Network}, 2},
		{Swizzle{}, 2},
		{Stop{}, 1},
		{Stop{Abrupt: true}, 2},
		{Restart{}, 1},
		{Compact{}, 2},
		{Defragment{}, 1},
		{Revoke{}, 3},
		{NoSpace{}, 1},
		{StepClock{By: time.Hour}, 1},
		{StepClock{By: -time.Hour}, 1},
		{ExpireTokens{}, 2},
		{SlowWatch{}, 1},
		{Deny{Denial: Permission}, 2},
		{Deny{Denial: Permission, Part: "/leader"}, 2},
		{Deny{Denial: Space}, 2},
		{Deny{Denial: Size}, 2},
		{Demote{}, 2},
		{Sequence(300*time.Millisecond, LoseAnswers{}, NoSpace{}), 1},
		{During(Compact{}, Freeze{}, time.Second), 1},
		{Both(Kill{}, LoseAnswers{}), 1},
		{Both(Freeze{}, Stop{Abrupt: true}), 1},
		{Sequence(300*time.Millisecond, LoseAnswers{}, Late{}, Drop{}), 1},
	}
	if members >= 3 {
		menu = append(menu, Weighted{Cut{}, 2}, Weighted{MoveLeader{}, 2})
	}
	return menu
}

// Deck draws faults: every one of a menu once, in a random order, and then by
// weight, for ever. It is not safe for concurrent use.
type Deck struct {
	rng   *rand.Rand
	menu  []Weighted
	first []Fault
	sum   int
}

// NewDeck returns a deck. The same rng state and menu give the same draws. Menu
// must not be empty, and weights must be positive.
func NewDeck(rng *rand.Rand, menu []Weighted) *Deck {
	d := &Deck{rng: rng, menu: menu}
	for _, i := range rng.Perm(len(menu)) {
		d.first = append(d.first, menu[i].Fault)
		d.sum += menu[i].Weight
	}
	return d
}

// Next draws a fault.
func (d *Deck) Next() Fault {
	if len(d.first) > 0 {
		f := d.first[0]
		d.first = d.first[1:]
		return f
	}
	n := d.rng.IntN(d.sum)
	for _, w := range d.menu {
		if n -= w.Weight; n < 0 {
			return w.Fault
		}
	}
	panic("faults: a weight is not positive")
}

// Again puts a fault back that could not be injected, behind those that have not
// been drawn for the first time.
func (d *Deck) Again(f Fault) { d.first = append(d.first, f) }
