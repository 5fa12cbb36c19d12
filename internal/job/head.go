package job

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// Head is what counting and ordering need of a record. Its texts share the record's
// memory.
type Head struct {
	ID, Kind, Owner, Outcome []byte
	priority                 int
	version                  int
	seq                      uint64
	ownerRev                 int64
	runAt                    time.Time
	EnqueuedAt, FinishedAt   []byte // RFC 3339: most of them are not looked at
	attempts                 []byte // the JSON array
}

// HeadOf reads a record's head without decoding the rest, which is several times
// faster: what counts 100,000 jobs must not take their payloads apart. Whatever it
// does not expect it leaves to decode, whose errors it returns. A record that is
// broken inside of a value passes here and is refused when it is decoded.
func (t Txns) HeadOf(where Place, kv *mvccpb.KeyValue) (h Head, err error) {
	if h.read(kv.Value) && h.plausible() && names(kv.Key, h.ID) {
		return h, nil
	}
	r, err := t.Decode(where, kv)
	if err != nil {
		return Head{}, err
	}
	return headFrom(r)
}

// headFrom is the head of a record that was decoded.
func headFrom(r *Record) (Head, error) {
	h := Head{
		ID: []byte(r.ID), Kind: []byte(r.Kind), Owner: []byte(r.Owner), Outcome: []byte(r.Outcome),
		priority: r.Priority, version: r.Version, seq: r.Seq, ownerRev: r.OwnerRev, runAt: r.RunAt,
		EnqueuedAt: timeText(r.EnqueuedAt), FinishedAt: timeText(r.FinishedAt),
	}
	var err error
	if len(r.Attempts) > 0 {
		h.attempts, err = json.Marshal(r.Attempts)
	}
	return h, err
}

func timeText(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return t.AppendFormat(nil, time.RFC3339Nano)
}

// plausible tells whether decode would take it.
func (h *Head) plausible() bool {
	return len(h.ID) > 0 && h.version >= 1 && h.version <= RecordVersion && (len(h.Owner) == 0 || h.ownerRev > 0)
}

// names tells whether a key ends in the ID, which then needs no escapes.
func names(key, id []byte) bool {
	at := len(key) - len(id)
	return at > 0 && key[at-1] == '/' && bytes.Equal(key[at:], id)
}

// Rank is the place of the job in its queue.
func (h *Head) Rank(kv *mvccpb.KeyValue) Rank {
	return Rank{h.priority, kv.CreateRevision, h.seq, string(h.ID)}
}

// State is as that of the record.
func (h *Head) State(where Place, now time.Time, lives func(sid string, rev int64) bool) state {
	switch {
	case where == InDead:
		return StateDead
	case where == InDone && string(h.Outcome) == OutcomeCancelled:
		return StateCancelled
	case where == InDone:
		return StateDone
	case len(h.Owner) > 0 && lives(string(h.Owner), h.ownerRev):
		return StateClaimed
	case len(h.Owner) > 0:
		return StateOrphan
	case !h.runAt.After(now):
		return StateReady
	}
	if log := h.Log(); len(log) > 0 {
		switch log[len(log)-1].Outcome {
		case OutcomeFailed, OutcomeLost:
			return StateRetry
		}
	}
	return StateScheduled
}

// Log decodes the attempts.
func (h *Head) Log() (log []Attempt) {
	if len(h.attempts) > 0 && json.Unmarshal(h.attempts, &log) != nil {
		return nil
	}
	return log
}

// LastEnd is when the latest entry of the log ended, zero without one. No text in
// the log can hold its mark, since quotes within texts are escaped.
func (h *Head) LastEnd() time.Time {
	mark := []byte(`"ended_at":"`)
	i := bytes.LastIndex(h.attempts, mark)
	if i < 0 {
		return time.Time{}
	}
	rest := h.attempts[i+len(mark):]
	return ParseTime(rest[:max(bytes.IndexByte(rest, '"'), 0)])
}

// ParseTime reads a time of a record, zero where it is none.
func ParseTime(text []byte) time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}
	}
	return t
}

// read takes the members apart that a head has; false means that this is not a
// record as encode writes it.
func (h *Head) read(value []byte) bool {
	nonce := keyspace.NonceOf(value)
	if nonce == "" {
		return false
	}
	rest := value[len(`{"w":""`)+len(nonce):]
	return string(rest) == "}" || eachMember(rest, ',', h.set)
}

// eachMember hands on the members of an object, of which one at least is left: what
// is left begins with before, which is '{' or ','. False means that take said so, or
// that this is not as encode writes it.
func eachMember(rest []byte, before byte, take func(name, value []byte) bool) bool {
	for ; len(rest) > 1 && rest[0] == before; before = ',' {
		name, after, ok := member(rest[1:])
		if !ok {
			return false
		}
		n := skipValue(after)
		if n <= 0 || !take(name, after[:n]) {
			return false
		}
		rest = after[n:]
		if string(rest) == "}" {
			return true
		}
	}
	return false
}

// set takes one member; false leaves the record to decode.
func (h *Head) set(name, v []byte) (ok bool) {
	switch string(name) {
	case "w":
		return false // two head nonces
	case "id":
		h.ID, ok = plainText(v)
	case "kind":
		h.Kind, ok = plainText(v)
	case "owner":
		h.Owner, ok = plainText(v)
	case "outcome":
		h.Outcome, ok = plainText(v)
	case "enqueued_at":
		h.EnqueuedAt, ok = plainText(v)
	case "finished_at":
		h.FinishedAt, ok = plainText(v)
	case "run_at":
		var text []byte
		if text, ok = plainText(v); ok {
			h.runAt = ParseTime(text)
			ok = !h.runAt.IsZero()
		}
	case "owner_rev":
		var text []byte
		if text, ok = plainText(v); ok {
			return setInt(text, func(n int64) { h.ownerRev = n })
		}
	case "v":
		return setInt(v, func(n int64) { h.version = int(n) })
	case "priority":
		return setInt(v, func(n int64) { h.priority = int(n) })
	case "seq":
		return setInt(v, func(n int64) { h.seq = uint64(n) })
	case "attempt", "failures", "losses", "max_attempts", "max_losses", "attempts_total":
		return setInt(v, func(n int64) { ok = within(n, maxCount) }) && ok
	case "payload_beside":
		return setInt(v, func(n int64) { ok = within(n, maxBeside) }) && ok
	case "timeout_ms":
		return setInt(v, func(n int64) { ok = within(n, maxTimeoutMS) }) && ok
	case "attempts":
		h.attempts, ok = v, v[0] == '['
	default: // of names that are unknown here, decode may know one: it takes them in any case
		_, ok = knownFields[string(name)]
	}
	return ok
}

func setInt(v []byte, set func(int64)) bool {
	n, err := strconv.ParseInt(string(v), 10, 64)
	set(n)
	return err == nil
}

// member reads "name": and returns what is behind.
func member(b []byte) (name, rest []byte, ok bool) {
	if b[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 || len(b) < end+4 || b[end+2] != ':' || bytes.IndexByte(b[1:end+1], '\\') >= 0 {
		return nil, nil, false
	}
	return b[1 : end+1], b[end+3:], true
}

// plainText is the text of a JSON string without escapes. Bytes that are no UTF-8 are
// the decoder's, which replaces them.
func plainText(v []byte) ([]byte, bool) {
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 || !utf8.Valid(v) {
		return nil, false
	}
	return v[1 : len(v)-1], true
}

// skipValue is the length of the JSON value that b begins with, or 0.
func skipValue(b []byte) int {
	switch b[0] {
	case '"':
		return skipString(b)
	case '{', '[':
		return skipNested(b)
	}
	return max(bytes.IndexAny(b, ",}]"), 0)
}

func skipString(b []byte) int {
	for i := 1; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0
		}
		i += n + 1
		slashes := 0
		for b[i-2-slashes] == '\\' { // ends at the opening quote at the latest
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return 0
}

func skipNested(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			n := skipString(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}
