// Package roles knows which etcd permissions people and programs need, and no more: what each role may do on which
// keys, what a user has been granted, and whether that suffices. Only Apply and Ask talk to etcd.
package roles

import (
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// Permission is one grant on a key, or on all keys with a prefix.
type Permission struct {
	// Type is read, write or readwrite, as etcdctl spells it.
	Type string `json:"type"`
	// Key is the key, or the prefix.
	Key string `json:"key"`
	// Prefix tells that it is a prefix.
	Prefix bool `json:"prefix"`
	// Why says what needs it.
	Why string `json:"why"`
}

// end is the end of the range that etcd is told.
func (p Permission) end() string {
	if p.Prefix {
		return clientv3.GetPrefixRangeEnd(p.Key)
	}
	return ""
}

// Etcdctl is the arguments of etcdctl that grant it to a role.
func (p Permission) Etcdctl(role string) string {
	prefix := ""
	if p.Prefix {
		prefix = "--prefix=true "
	}
	return "role grant-permission " + escape.Shell(role) + " " + prefix + p.Type + " " + escape.Shell(p.Key)
}

// Role is what one kind of user needs.
type Role struct {
	// Name is viewer, producer, worker, dispatcher or operator.
	Name string `json:"name"`
	// InEtcd is the role's name in etcd.
	InEtcd string `json:"in_etcd"`
	// Can says what it is for.
	Can string `json:"can"`
	// Cannot says what it keeps out.
	Cannot string `json:"cannot"`
	// Permissions are its grants.
	Permissions []Permission `json:"permissions"`
}

// nameInEtcd names a role where the roles of all roots stand in one place: by the root, and, unless it is for all of the
// root, by the queue and the identity. Each is escaped, so no two roles have one name.
func nameInEtcd(role, root, queue, identity string) string {
	const separator = ":"
	parts := []string{"leasekit", root, role}
	if role != Viewer && role != Operator {
		parts = []string{"leasekit", root, queue, role}
		if identity != "" {
			parts = append(parts, identity)
		}
	}
	for i := range parts {
		parts[i] = escape.Name(parts[i], separator)
	}
	return strings.Join(parts, separator)
}

// The names of the roles.
const (
	Viewer     = "viewer"
	Producer   = "producer"
	Worker     = "worker"
	Dispatcher = "dispatcher"
	Operator   = "operator"
)

const (
	read      = "read"
	readwrite = "readwrite"
)

// For returns the roles for one queue, for users whose identity is that, which "" leaves open: then they can be each
// other, and end each other's sessions.
func For(keys keyspace.Keyspace, queue, identity string) []Role {
	all := func(typ, key, why string) Permission { return Permission{typ, key, true, why} }
	q := keys.Queue(queue)
	sessions, lanes, workers := keys.Sessions(), keys.Lanes(), q.Workers()
	if identity != "" {
		sessions, lanes, workers = keys.SessionsOf(identity), keys.LanesOf(identity), q.WorkersOf(identity)
	}
	jobs := []Permission{
		{read, keys.Meta(), false, "the schema; an operator's or root's first session writes it"},
		{read, q.Config(), false, "whether the queue is paused, its mode and settings"},
		all(readwrite, q.Jobs(), "live jobs"),
		all(readwrite, q.Prefix()+"payloads/", "payloads above 1 KiB"),
		all(readwrite, q.Prefix()+"progress/", "progress and checkpoints"),
		all(readwrite, q.DoneJobs(), "what is over: compared by enqueue, written by completion"),
		all(readwrite, q.DeadJobs(), "dead letters: compared by enqueue, written by failures"),
		all(readwrite, lanes, "lanes, in which every write travels"),
	}
	work := append(append([]Permission{}, jobs...),
		all(read, keys.Sessions(), "who is alive"),
		all(readwrite, sessions, "its own sessions"),
		all(read, q.Workers(), "who else works"),
		all(readwrite, workers, "its registration"),
		all(readwrite, q.Prefix()+"assigned/", "its inbox, and those of owners that it replaces"),
		all(readwrite, q.RefusedWrites(), "the evidence of refused late writes"),
		all(read, keys.Election(q.DispatcherElection()), "whether anybody dispatches"),
	)
	role := func(name, can, cannot string, permissions []Permission) Role {
		return Role{name, nameInEtcd(name, keys.Root(), queue, identity), can, cannot, permissions}
	}
	return []Role{
		role(Viewer, "list, watch, describe, status, doctor without --fix", "change anything",
			[]Permission{all(read, keys.Root(), "everything under the root")}),
		role(Producer, "enqueue, and wait for results", "work jobs, open sessions, other queues; it can overwrite jobs: etcd has no right to create only", jobs),
		role(Worker, "claim, take over, complete; and enqueue", "other queues; with --as: be others, and end their sessions", work),
		role(Dispatcher, "hand out jobs, beside everything that a worker can", "other queues",
			append(append([]Permission{}, work...), all(readwrite, keys.Election(q.DispatcherElection()), "the election of the dispatcher"))),
		role(Operator, "everything under the root: set queues, repair, revoke sessions, force locks", "other roots, etcd's own administration",
			[]Permission{all(readwrite, keys.Root(), "everything under the root")}),
	}
}
