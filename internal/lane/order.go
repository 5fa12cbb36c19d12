package lane

// openKeys are the keys that an open flight touches: one whose outcome is not known
// yet, or whose original may still arrive.
type openKeys struct {
	units []*unit
	keys  map[uint64]bool // true: written
	// ranged and ordered tell that one of the units is.
	ranged, ordered bool
}

func (o *openKeys) clear() {
	o.units, o.ranged, o.ordered = nil, false, false
	clear(o.keys)
}

// meets tells whether u must wait for the flight.
func (o *openKeys) meets(u *unit) bool {
	if len(o.units) == 0 {
		return false
	}
	return o.ranged || u.ranged || o.ordered && u.txn.InOrder || u.meets(o.keys)
}

// meets tells whether the unit writes one of the keys, or touches one that is written.
func (u *unit) meets(keys map[uint64]bool) bool {
	for _, t := range u.touches {
		if written, ok := keys[t.key]; ok && (written || t.write) { //mutant:batch-meets
			return true
		}
	}
	return false
}

// compose takes what travels next in the slot's lane out of the queue: nothing that
// meets a flight whose outcome is open, so that the writes of one key keep their order.
// Called with mu held.
func (c *Committer) compose(slot *laneSlot) (units []*unit) {
	var open []*openKeys
	for _, s := range c.lanes {
		if s != slot && s.busy {
			open = append(open, &s.open)
		}
	}
	for _, l := range c.ending {
		open = append(open, &l.open)
	}
	units, c.queue = c.batch.compose(c.queue, c.travelsAlone, &slot.open, open)
	return units
}

// contest hurries flights whose answers are overdue and whose callers have gone, where
// a later write meets them: an empty batch then takes their place in their lanes.
// Called with mu held.
func (c *Committer) contest() {
	for _, slot := range c.lanes {
		if slot.busy && slot.slow && c.awaited(&slot.open) {
			slot.contest()
		}
	}
}

// awaited tells whether a waiting unit meets one of the flight whose caller has gone.
func (c *Committer) awaited(o *openKeys) bool {
	for _, u := range c.queue[:min(len(c.queue), maxPassed)] {
		if u.phase.Load() == phaseWithdrawn || !o.meets(u) {
			continue
		}
		for _, sent := range o.units {
			if sent.left.Load() && (sent.ranged || u.ranged || sent.txn.InOrder && u.txn.InOrder || u.meets(sent.keys())) {
				return true
			}
		}
	}
	return false
}

// keys are what the unit touches.
func (u *unit) keys() map[uint64]bool {
	keys := make(map[uint64]bool, len(u.touches))
	for _, t := range u.touches {
		keys[t.key] = t.write
	}
	return keys
}

// callerLeft looks again at what waits, since a flight may be contested now.
func (c *Committer) callerLeft() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.contest()
}
