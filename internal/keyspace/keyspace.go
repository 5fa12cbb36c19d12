// Package keyspace builds and parses every key of Leasekit, and the heads of the records
// that lie there. It is pure: it knows no etcd and no clock.
package keyspace

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leasekit/leasekit/internal/fault"
)

// defaultRoot is the prefix under which Leasekit keeps its keys unless told
// otherwise. One root per tenant or environment.
const defaultRoot = "/leasekit/"

// maxName bounds every name that becomes a key segment, in bytes before
// escaping.
const maxName = 200

// Keyspace builds and parses every key under one root. Nothing else in
// Leasekit concatenates keys. Names are escaped and segments have an exact
// depth, so no name can reach into another name's keys. It is a plain value,
// safe to copy and to share.
type Keyspace struct{ root string }

// New returns the keyspace under root; "" means /leasekit/. A root
// that does not end in "/" gets one. The error wraps [fault.ErrInvalid].
func New(root string) (Keyspace, error) {
	if root == "" {
		root = defaultRoot
	}
	if !utf8.ValidString(root) || strings.ContainsFunc(root, unicode.IsControl) {
		return Keyspace{}, &fault.InputError{Field: "root", Value: root, Reason: "a root is printable UTF-8 text such as /leasekit/"}
	}
	if strings.Trim(root, "/") == "" {
		return Keyspace{}, &fault.InputError{Field: "root", Value: root, Reason: "a root needs a name, such as /leasekit/, so that it does not own all of etcd"}
	}
	if !strings.HasSuffix(root, "/") {
		root += "/"
	}
	return Keyspace{root: root}, nil
}

// ValidateName checks a queue, lock, election, job or identity name: 1 to 200
// bytes of UTF-8 without control characters. Field names the parameter in the
// error, which wraps [fault.ErrInvalid].
func ValidateName(field, name string) error {
	switch {
	case name == "":
		return &fault.InputError{Field: field, Value: name, Reason: "it must not be empty"}
	case len(name) > maxName:
		return &fault.InputError{Field: field, Value: name, Reason: "it has " + strconv.Itoa(len(name)) + " bytes, at most " + strconv.Itoa(maxName) + " are accepted"}
	case !utf8.ValidString(name):
		return &fault.InputError{Field: field, Value: name, Reason: "it is not valid UTF-8"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return &fault.InputError{Field: field, Value: name, Reason: "it must not contain control characters"}
	}
	return nil
}

// Root is the prefix of every key, with its final slash.
func (k Keyspace) Root() string { return k.root }

// Meta holds {"schema":1}.
func (k Keyspace) Meta() string { return k.root + "meta" }

// Sessions is the prefix of all session keys.
func (k Keyspace) Sessions() string { return k.root + "sessions/" }

// Session is the key of one session; sid is as a session shows its ID.
func (k Keyspace) Session(sid string) string { return k.Sessions() + sid }

// SessionsOf is the prefix of the sessions of one identity: a role that may write it
// can be that identity and no other.
func (k Keyspace) SessionsOf(identity string) string {
	return k.Sessions() + EscapeIdentity(identity) + "."
}

// LanesOf is the prefix of the lanes of one identity.
func (k Keyspace) LanesOf(identity string) string { return k.Lanes() + EscapeIdentity(identity) + "." }

// Lanes is the prefix of all lanes.
func (k Keyspace) Lanes() string { return k.root + "lanes/" }

// Lane is lane n of a writer; owner is <escaped identity>.<16 hex>.
func (k Keyspace) Lane(owner string, n int) string {
	return k.Lanes() + owner + "/" + strconv.Itoa(n)
}

// Queues is the prefix of all queues.
func (k Keyspace) Queues() string { return k.root + "queues/" }

// Queue returns the keys of one queue.
func (k Keyspace) Queue(name string) QueueKeys {
	return QueueKeys{name: name, prefix: k.Queues() + escape(name) + "/"}
}

// QueueKeys are the keys of one queue. A plain value.
type QueueKeys struct{ name, prefix string }

// Name is the queue's name, unescaped.
func (q QueueKeys) Name() string { return q.name }

// Prefix is the prefix of everything that belongs to the queue.
func (q QueueKeys) Prefix() string { return q.prefix }

// DispatcherElection is the name of the election whose leader dispatches the queue.
func (q QueueKeys) DispatcherElection() string { return "dispatcher:" + q.name }

// Config holds mode, pause and limits.
func (q QueueKeys) Config() string { return q.prefix + "config" }

// Workers is the prefix of the workers' registrations.
func (q QueueKeys) Workers() string { return q.prefix + "workers/" }

// WorkersOf is the prefix of those of one identity.
func (q QueueKeys) WorkersOf(identity string) string {
	return q.Workers() + EscapeIdentity(identity) + "."
}

// Worker is the registration of one session as a worker.
func (q QueueKeys) Worker(sid string) string { return q.Workers() + sid }

// Jobs is the prefix of all live jobs.
func (q QueueKeys) Jobs() string { return q.prefix + "jobs/" }

// Job is the key of a live job, open or claimed, for its whole life.
func (q QueueKeys) Job(id string) string {
	sum := sha256.Sum256([]byte(id))
	return q.Jobs() + hex.EncodeToString(sum[:1]) + "/" + escape(id)
}

// Payload holds a payload that is too large for the record.
func (q QueueKeys) Payload(id string) string { return q.prefix + "payloads/" + escape(id) }

// Progress holds the latest progress and checkpoint of a job.
func (q QueueKeys) Progress(id string) string { return q.prefix + "progress/" + escape(id) }

// Inbox is the prefix of what a dispatcher assigned to one session.
func (q QueueKeys) Inbox(sid string) string { return q.prefix + "assigned/" + sid + "/" }

// Assigned is one entry of an inbox.
func (q QueueKeys) Assigned(sid, id string) string { return q.Inbox(sid) + escape(id) }

// DoneJobs is the prefix of finished and cancelled jobs.
func (q QueueKeys) DoneJobs() string { return q.prefix + "done/" }

// Done is a finished or cancelled job.
func (q QueueKeys) Done(id string) string { return q.DoneJobs() + escape(id) }

// DeadJobs is the prefix of dead letters.
func (q QueueKeys) DeadJobs() string { return q.prefix + "dead/" }

// Dead is a dead letter.
func (q QueueKeys) Dead(id string) string { return q.DeadJobs() + escape(id) }

// RefusedWrites is the prefix of the evidence of refused late writes.
func (q QueueKeys) RefusedWrites() string { return q.prefix + "refused/" }

// Refused is the evidence of the last refused late write for a job.
func (q QueueKeys) Refused(id string) string { return q.RefusedWrites() + escape(id) }

// ParsedKey is what [Keyspace.Parse] found in a key. Fields that the kind does
// not have are empty.
type ParsedKey struct {
	// Kind is the directory: meta, sessions, lanes, locks, elections, semaphores,
	// config, workers, jobs, payloads, progress, assigned, done, dead or refused.
	Kind string
	// Name is the name of the lock, election or semaphore, unescaped.
	Name string
	// Queue is the queue's name, unescaped.
	Queue string
	// ID is the job's id, unescaped.
	ID string
	// Session is the session id (sessions, workers, assigned, who waits for a lock,
	// a leadership or a permit) or the lane's owner (lanes).
	Session string
}

// Parse takes a key apart; ok is false for keys that this keyspace would not
// have built, such as foreign keys under the root.
func (k Keyspace) Parse(key string) (p ParsedKey, ok bool) {
	rest, ok := strings.CutPrefix(key, k.root)
	if !ok {
		return p, false
	}
	seg := strings.Split(rest, "/")
	p.Kind = string(seg[0])
	switch {
	case rest == "meta":
		return p, true
	case len(seg) == 2 && seg[0] == "sessions", len(seg) == 3 && seg[0] == "lanes" && isLaneNumber(seg[2]):
		p.Session = seg[1]
		return p, isSessionID(p.Session)
	case len(seg) >= 3 && seg[0] == "queues":
		return parseQueueKey(seg[1:])
	case len(seg) >= 3:
		return parseClaimKey(seg)
	}
	return ParsedKey{}, false
}

// Misnamed tells whether the key holds a name that [ValidateName] refuses.
func (p ParsedKey) Misnamed() bool {
	return slices.ContainsFunc([]string{p.Name, p.Queue, p.ID}, func(name string) bool { return name != "" && ValidateName("name", name) != nil })
}

// parseClaimKey parses locks/<name>/holder, elections/<name>/leader,
// semaphores/<name>/slots/<n>, and the entries of those who wait.
func parseClaimKey(seg []string) (p ParsedKey, ok bool) {
	wait := map[string]string{"locks": "waiters", "elections": "candidates", "semaphores": "waiters"}[seg[0]]
	if p.Name, ok = Unescape(seg[1]); !ok || wait == "" {
		return ParsedKey{}, false
	}
	p.Kind = seg[0]
	switch rest := strings.Join(seg[2:], "/"); {
	case seg[0] == "locks" && rest == "holder", seg[0] == "elections" && rest == "leader":
		return p, true
	case len(seg) == 4 && seg[0] == "semaphores" && seg[2] == "slots":
		return p, isDecimal(seg[3])
	case len(seg) == 4 && seg[2] == wait:
		// The number follows the last dash: an identity may hold dashes too.
		i := max(strings.LastIndexByte(seg[3], '-'), 0)
		p.Session = seg[3][:i]
		return p, isSessionID(p.Session) && isDecimal(seg[3][i+1:])
	}
	return ParsedKey{}, false
}

// parseQueueKey parses <q>/<kind>/... and rejects whatever would not be rebuilt
// to the same bytes.
func parseQueueKey(seg []string) (p ParsedKey, ok bool) {
	if p.Queue, ok = Unescape(seg[0]); !ok {
		return ParsedKey{}, false
	}
	p.Kind = string(seg[1])
	last := seg[len(seg)-1]
	switch {
	case len(seg) == 2 && p.Kind == "config":
		return p, true
	case len(seg) == 3 && p.Kind == "workers":
		p.Session = last
		return p, isSessionID(last)
	case len(seg) == 4 && p.Kind == "jobs":
		p.ID, ok = Unescape(last)
		sum := sha256.Sum256([]byte(p.ID))
		return p, ok && seg[2] == hex.EncodeToString(sum[:1])
	case len(seg) == 4 && p.Kind == "assigned":
		p.Session = seg[2]
		p.ID, ok = Unescape(last)
		return p, ok && isSessionID(p.Session)
	case len(seg) == 3:
		switch p.Kind {
		case "payloads", "progress", "done", "dead", "refused":
			p.ID, ok = Unescape(last)
			return p, ok
		}
	}
	return ParsedKey{}, false
}

// Lease is the lease that Session names, on which its own keys hang: a session's key, its
// registrations and its places in lines, or a lane. It is 0 where there is none.
func (p ParsedKey) Lease() int64 {
	if p.Session == "" {
		return 0
	}
	id, _ := strconv.ParseUint(p.Session[strings.LastIndexByte(p.Session, '.')+1:], 16, 64)
	return int64(id)
}

// IdentityOf is the identity in a session's id, escaped as it is there.
func IdentityOf(sid string) string {
	identity, _, _ := strings.Cut(sid, ".")
	return identity
}

// isSessionID tells whether s has the form <escaped identity>.<16 hex digits>.
func isSessionID(s string) bool {
	identity, incarnation, ok := strings.Cut(s, ".")
	if !ok || len(incarnation) != 16 || strings.Trim(incarnation, "0123456789abcdef") != "" {
		return false
	}
	// No dot is left in identity, so only its escapes can be wrong.
	name, ok := Unescape(strings.ReplaceAll(identity, "%2E", "."))
	return ok && EscapeIdentity(name) == identity
}

// isLaneNumber accepts <n>, a lane, and <n>-<i>, the note beside it.
func isLaneNumber(s string) bool {
	n, note, noted := strings.Cut(s, "-")
	return isDecimal(n) && (!noted || isDecimal(note))
}

func isDecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == "" && (s == "0" || s[0] != '0')
}

// escape keeps letters, digits, "-", "_" and "." and writes every other byte as
// %XX, so that a segment holds no separator and parses back to the same name.
func escape(name string) string {
	const hexDigits = "0123456789ABCDEF"
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf || !plain(byte(r)) }) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// EscapeIdentity escapes "." too: it separates identity and incarnation in a
// session id, so a role can be given the prefix "<identity>.".
func EscapeIdentity(name string) string {
	return strings.ReplaceAll(escape(name), ".", "%2E")
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// Unescape reverses escape; ok is false when escape would not have written s.
func Unescape(s string) (name string, ok bool) {
	if s == "" {
		return "", false
	}
	if !strings.Contains(s, "%") {
		return s, escape(s) == s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	name = b.String()
	return name, escape(name) == s
}
