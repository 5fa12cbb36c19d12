package workqueue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// recordVersion is the newest version of the record format that this code reads and
// writes. A record has the oldest one that can say what it holds, so that older
// programs leave alone no more than they must.
const (
	recordVersion = versionText
	versionText   = 2 // text that is no JSON, as text
	versionPlain  = 1
)

// record is the value of a job's key, in jobs/, done/ and dead/ alike: JSON that
// a person can read with etcdctl. The head nonce comes first, fresh at every
// write, so that a guard can compare the value's head. Fields that this version
// does not know survive a rewrite.
type record struct {
	Nonce   string `json:"w"`
	Version int    `json:"v"`
	ID      string `json:"id"`
	// Born never changes: with the id it names this job and no later one of the
	// same id.
	Born string `json:"born"`
	Kind string `json:"kind,omitempty"`

	// Payload is kept as JSON where that gives the same bytes back, else in PayloadText
	// where it is text, else in Payload64; Beside is the size of a payload that lies
	// beside the record.
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadText string          `json:"payload_text,omitempty"`
	Payload64   []byte          `json:"payload_base64,omitempty"`
	Beside      int             `json:"payload_beside,omitempty"`

	Labels      map[string]string `json:"labels,omitempty"`
	Trace       map[string]string `json:"trace,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	Seq         uint64            `json:"seq,omitempty"` // place among jobs of one revision
	RunAt       time.Time         `json:"run_at,omitzero"`
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	MaxLosses   int               `json:"max_losses,omitempty"`
	AtMostOnce  bool              `json:"at_most_once,omitempty"`
	EnqueuedAt  time.Time         `json:"enqueued_at,omitzero"`

	// Attempt is the ordinal of the latest attempt: it only grows.
	Attempt  int `json:"attempt,omitempty"`
	Failures int `json:"failures,omitempty"`
	// Losses are the counted ones in a row: see transition.
	Losses int `json:"losses,omitempty"`

	// Invariant: Owner is set exactly while the job is claimed.
	Owner     string    `json:"owner,omitempty"`
	OwnerRev  int64     `json:"owner_rev,omitempty,string"`
	ClaimedAt time.Time `json:"claimed_at,omitzero"`
	// Assigned tells that a dispatcher made the claim, so that there is an inbox entry
	// to take away with it.
	Assigned bool `json:"assigned,omitempty"`

	Outcome    string          `json:"outcome,omitempty"` // in done/ and dead/
	FinishedAt time.Time       `json:"finished_at,omitzero"`
	Error      string          `json:"error,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	ResultText string          `json:"result_text,omitempty"`
	Result64   []byte          `json:"result_base64,omitempty"`

	// Attempts is the audit trail: the last logLimit entries of LogTotal.
	LogTotal int       `json:"attempts_total,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"`

	extra map[string]json.RawMessage
}

// encode writes a record, in the version that it needs. The order of fields is fixed,
// the head nonce first.
func (r *record) encode() ([]byte, error) {
	out := *r
	out.Version = r.version()
	b, ok := appendObject(make([]byte, 0, r.size()), &out, recordFields)
	if !ok {
		var err error
		if b, err = encodeJSON(&out); err != nil {
			return nil, fmt.Errorf("encode job %s: %w", r.ID, err)
		}
	}
	return withExtra(b, r.extra)
}

// version is the oldest one that can say what the record holds. What a newer program
// wrote keeps its version.
func (r *record) version() int {
	if r.Version > recordVersion {
		return r.Version
	}
	if r.PayloadText != "" || r.ResultText != "" {
		return versionText
	}
	return versionPlain
}

// encodeJSON writes v without the escapes for HTML, which would change the bytes
// of payloads.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// withExtra appends the members of extra to a JSON object that is not empty.
func withExtra(object []byte, extra map[string]json.RawMessage) ([]byte, error) {
	if len(extra) == 0 {
		return object, nil
	}
	b := bytes.TrimSuffix(object, []byte("}"))
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, fmt.Errorf("encode field %q: %w", name, err)
		}
		b = append(append(append(append(b, ','), quoted...), ':'), extra[name]...)
	}
	return append(b, '}'), nil
}

// decodeRecord reads a record and keeps the fields that it does not know.
func decodeRecord(value []byte) (*record, error) {
	if keyspace.NonceOf(value) == "" {
		return nil, fmt.Errorf("%w: it does not begin with a head nonce", ErrUndecodable)
	}
	r, err := parseRecord(value)
	if v := versionOf(r, err, value); v > recordVersion { //mutant:record-version
		return nil, fmt.Errorf("%w: it has version %d, this program knows %d: use a newer one", ErrNewer, v, recordVersion)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	case r.ID == "" || r.Version < 1:
		return nil, fmt.Errorf("%w: id or version is missing", ErrUndecodable)
	case r.Nonce != keyspace.NonceOf(value):
		// Its guard would never hold, and whoever tries to claim it would try for ever.
		return nil, fmt.Errorf("%w: it has two head nonces", ErrUndecodable)
	case r.claimed() && r.OwnerRev <= 0: //mutant:record-owner
		// That its owner is gone could never be proven.
		return nil, fmt.Errorf("%w: it has an owner without a revision", ErrUndecodable)
	}
	if err := r.checkNumbers(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return r, nil
}

// parseRecord reads the JSON alone. The record may share the value's memory.
func parseRecord(value []byte) (*record, error) {
	r := &record{}
	if scanObject(r, value, recordFields) {
		return r, nil
	}
	return parseAnyRecord(value)
}

// parseAnyRecord reads what was not written by encode, or by a newer one.
func parseAnyRecord(value []byte) (*record, error) {
	r := &record{}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	err := dec.Decode(r)
	switch {
	case err == nil && len(bytes.TrimSpace(value[dec.InputOffset():])) > 0:
		return nil, errors.New("something follows the record")
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		*r = record{}
		if err = json.Unmarshal(value, r); err == nil {
			r.extra, err = unknownFields(value)
		}
	}
	return r, err
}

// versionOf finds the version even of a record that this program cannot read,
// since that is the likely reason.
func versionOf(r *record, err error, value []byte) int {
	if err == nil {
		return r.Version
	}
	var head struct {
		Version int `json:"v"`
	}
	_ = json.Unmarshal(value, &head)
	return head.Version
}

// decode reads a record that was found under key, in where. A record that names
// another job than its key is undecodable: nothing may be done in its name.
func (t txns) decode(where place, kv *mvccpb.KeyValue) (*record, error) {
	r, err := decodeRecord(kv.Value)
	if err == nil && t.key(where, r.ID) != string(kv.Key) { //mutant:record-key
		return nil, fmt.Errorf("%w: it names job %q, its key does not", ErrUndecodable, r.ID)
	}
	return r, err
}

// unknownFields returns the members that record has no field for.
func unknownFields(value []byte) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return isOneOf(name, knownFields) })
	return all, nil
}

// isOneOf tells whether decoding takes a member for one of these fields, which it does
// in any case of its letters. Kept as an unknown one beside the field, it would
// overrule the field when the record is read again.
func isOneOf(name string, fields map[string]struct{}) bool {
	if _, ok := fields[name]; ok {
		return true
	}
	for field := range fields {
		if strings.EqualFold(name, field) {
			return true
		}
	}
	return false
}

// knownFields are the JSON names of record's fields.
var knownFields = fieldNames[record]()

func (r *record) claimed() bool { return r.Owner != "" }

// due tells whether an open job may be claimed at now.
func (r *record) due(now time.Time) bool { return !r.RunAt.After(now) }

// payload returns the bytes that were enqueued, unless they lie beside.
func (r *record) payload() []byte {
	return either(r.Payload, r.PayloadText, r.Payload64)
}

// setPayload keeps payload in the record.
func (r *record) setPayload(b []byte) { r.Payload, r.PayloadText, r.Payload64 = split(b) }

func (r *record) setResult(b []byte) { r.Result, r.ResultText, r.Result64 = split(b) }

func (r *record) result() []byte {
	return either(r.Result, r.ResultText, r.Result64)
}

// split returns b as JSON when encoding it as such gives the same bytes back, else as
// text when it is some, else as bytes for base64. So a person can read it in etcd.
func split(b []byte) (j json.RawMessage, text string, rest []byte) {
	if len(b) == 0 {
		return nil, "", nil
	}
	var buf bytes.Buffer
	switch {
	case utf8.Valid(b) && json.Compact(&buf, b) == nil && bytes.Equal(buf.Bytes(), b) && !tooDeep(b):
		return b, "", nil
	case isText(b):
		return nil, string(b), nil
	}
	return nil, "", b
}

// isText tells whether b is text for people, and small enough for its escapes: each
// character takes at most twice its bytes.
func isText(b []byte) bool {
	return len(b) <= MaxResult && utf8.Valid(b) && bytes.IndexFunc(b, func(c rune) bool {
		return c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f
	}) < 0
}

// tooDeep tells whether JSON is nested so deeply that encoding/json, which stops
// at 10,000, might write it but not read it back inside of something else.
func tooDeep(b []byte) bool {
	const margin = 100
	if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) < 10_000-margin {
		return false
	}
	wrapped := append(bytes.Repeat([]byte("["), margin), b...)
	return !json.Valid(append(wrapped, bytes.Repeat([]byte("]"), margin)...))
}

// logLimit is how many entries of the audit trail a record keeps.
const logLimit = 20

// log appends to the audit trail. An entry that only repeats the one before is
// collapsed into it.
func (r *record) log(a Attempt) {
	a.Error = shorten(a.Error, maxError)
	r.LogTotal = oneMore(r.LogTotal)
	r.Attempts = slices.Clone(r.Attempts)
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].repeats(a) {
		a.Repeated = oneMore(r.Attempts[n-1].Repeated)
		r.Attempts[n-1] = a
		return
	}
	r.Attempts = append(r.Attempts, a)
	if extra := len(r.Attempts) - logLimit; extra > 0 {
		r.Attempts = r.Attempts[extra:]
	}
}

// shorten makes s valid UTF-8, which JSON needs, and shortens it to at most n bytes, at
// a rune boundary, keeping the end: the last lines of an error say most.
func shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	const mark = "..."
	return mark + strings.ToValidUTF8(s[len(s)-n+len(mark):], "")
}

// stamp is now as records keep it: UTC, to the millisecond.
func stamp(now time.Time) time.Time { return now.UTC().Truncate(time.Millisecond) }
