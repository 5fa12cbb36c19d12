// Package faults holds what can go wrong around a queue, each trouble as a named
// value: processes that are killed or freeze, networks that lose answers, members
// that stop, an etcd that is full, clocks that jump. A Fault is injected into an
// Env, which says what there is to break, and healed by the function that Inject
// returns. Both, During and Sequence make one fault of several, and a Deck draws
// them at random from a seed.
//
// Faults that run at the same time never break the same thing: what one has
// borrowed from the Env, no other touches before it is healed, so that healing one
// does not heal another. At most one fault at a time takes members away.
//
// Injecting is deterministic as far as the Env is: every choice is drawn from
// Env.Rand. What the choice meets is not.
package faults
