package faults

import (
	"github.com/leasekit/leasekit/integration/etcdtest"
)

// Reach says which connections a fault of the network hits.
type Reach int

const (
	// Endpoint is one client's way to one member.
	Endpoint Reach = iota
	// Network is one client's way to all members.
	Network
	// Service is the way of all clients to one member.
	Service
)

// suffix tells faults of different reach apart.
func (r Reach) suffix() string {
	switch r {
	case Network:
		return "-network"
	case Service:
		return "-service"
	}
	return ""
}

// borrow borrows the proxies of a random place of that reach.
func (r Reach) borrow(env *Env) ([]*etcdtest.Proxy, func(), error) {
	places := r.places(env)
	for _, i := range env.Rand.Perm(len(places)) {
		if returned, err := borrowAll(env, places[i]); err == nil {
			return places[i], returned, nil
		}
	}
	return nil, nil, ErrNotHere
}

// until does something to the proxies of a random place of that reach until it is healed.
func (r Reach) until(env *Env, name string, do func(*etcdtest.Proxy)) (Heal, error) {
	proxies, returned, err := r.borrow(env)
	if err != nil {
		return nil, err
	}
	each(proxies, do)
	return healing(name, returned, now(func() { each(proxies, (*etcdtest.Proxy).Heal) })), nil
}

func (r Reach) places(env *Env) [][]*etcdtest.Proxy {
	var places [][]*etcdtest.Proxy
	switch r {
	case Network:
		return env.Networks
	case Service:
		for _, network := range env.Networks {
			for i, p := range network {
				if i == len(places) {
					places = append(places, nil)
				}
				places[i] = append(places[i], p)
			}
		}
	default:
		for _, network := range env.Networks {
			for _, p := range network {
				places = append(places, []*etcdtest.Proxy{p})
			}
		}
	}
	return places
}

// each calls f for every proxy.
func each(proxies []*etcdtest.Proxy, f func(*etcdtest.Proxy)) {
	for _, p := range proxies {
		f(p)
	}
}
