package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// RecordVersion is the newest version of the record format that this code reads and
// writes. A record has the oldest one that can say what it holds, so that older
// programs leave alone no more than they must.
const (
	RecordVersion = versionText
	versionText   = 2 // text that is no JSON, as text
	VersionPlain  = 1
)

// Record is the value of a job's key, in jobs/, done/ and dead/ alike: JSON that
// a person can read with etcdctl. The head nonce comes first, fresh at every
// write, so that a guard can compare the value's head. Fields that this version
// does not know survive a rewrite.
type Record struct {
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

	// Attempts is the audit trail: the last LogLimit entries of LogTotal.
	LogTotal int       `json:"attempts_total,omitempty"`
	Attempts []Attempt `json:"attempts,omitempty"`

	extra map[string]json.RawMessage
}

// Encode writes a record, in the version that it needs. The order of fields is fixed,
// the head nonce first.
func (r *Record) Encode() ([]byte, error) {
	out := *r
	out.Version = r.leastVersion()
	b, ok := appendObject(make([]byte, 0, r.Size()), reflect.ValueOf(&out).Elem(), recordFields)
	if !ok {
		var err error
		if b, err = EncodeJSON(&out); err != nil {
			return nil, fmt.Errorf("encode job %s: %w", r.ID, err)
		}
	}
	return withExtra(b, r.extra)
}

// leastVersion is the oldest one that can say what the record holds. What a newer program
// wrote keeps its version.
func (r *Record) leastVersion() int {
	if r.Version > RecordVersion {
		return r.Version
	}
	if r.PayloadText != "" || r.ResultText != "" {
		return versionText
	}
	return VersionPlain
}

// EncodeJSON writes v without the escapes for HTML, which would change the bytes
// of payloads.
func EncodeJSON(v any) ([]byte, error) {
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

// Decode reads a record and keeps the fields that it does not know.
func Decode(value []byte) (*Record, error) {
	if keyspace.NonceOf(value) == "" {
		return nil, fmt.Errorf("%w: it does not begin with a head nonce", ErrUndecodable)
	}
	r, err := ParseRecord(value)
	if v := versionOf(r, err, value); v > RecordVersion { //mutant:record-version
		return nil, fmt.Errorf("%w: it has version %d, this program knows %d: use a newer one", ErrNewer, v, RecordVersion)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	case r.ID == "" || r.Version < 1:
		return nil, fmt.Errorf("%w: id or version is missing", ErrUndecodable)
	case r.Nonce != keyspace.NonceOf(value):
		// Its guard would never hold, and whoever tries to claim it would try for ever.
		return nil, fmt.Errorf("%w: it has two head nonces", ErrUndecodable)
	case r.Claimed() && r.OwnerRev <= 0: //mutant:record-owner
		// That its owner is gone could never be proven.
		return nil, fmt.Errorf("%w: it has an owner without a revision", ErrUndecodable)
	}
	if err := r.checkNumbers(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return r, nil
}

// ParseRecord reads the JSON alone. The record may share the value's memory.
func ParseRecord(value []byte) (*Record, error) {
	r := &Record{}
	if scanObject(reflect.ValueOf(r).Elem(), value, recordFields) {
		return r, nil
	}
	return parseAnyRecord(value)
}

// parseAnyRecord reads what was not written by encode, or by a newer one.
func parseAnyRecord(value []byte) (*Record, error) {
	r := &Record{}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.DisallowUnknownFields()
	err := dec.Decode(r)
	switch {
	case err == nil && len(bytes.TrimSpace(value[dec.InputOffset():])) > 0:
		return nil, errors.New("something follows the record")
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		*r = Record{}
		if err = json.Unmarshal(value, r); err == nil {
			r.extra, err = unknownFields(value)
		}
	}
	return r, err
}

// versionOf finds the version even of a record that this program cannot read,
// since that is the likely reason.
func versionOf(r *Record, err error, value []byte) int {
	if err == nil {
		return r.Version
	}
	var head struct {
		Version int `json:"v"`
	}
	_ = json.Unmarshal(value, &head)
	return head.Version
}

// Decode reads a record that was found under key, in where. A record that names
// another job than its key is undecodable: nothing may be done in its name.
func (t Txns) Decode(where Place, kv *mvccpb.KeyValue) (*Record, error) {
	r, err := Decode(kv.Value)
	if err == nil && t.Key(where, r.ID) != string(kv.Key) { //mutant:record-key
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
var knownFields = fieldNames[Record]()

// Claimed tells whether the job has an owner, dead or alive.
func (r *Record) Claimed() bool { return r.Owner != "" }

// Due tells whether an open job may be claimed at now.
func (r *Record) Due(now time.Time) bool { return !r.RunAt.After(now) }

// PayloadBytes returns the bytes that were enqueued, unless they lie beside.
func (r *Record) PayloadBytes() []byte {
	return either(r.Payload, r.PayloadText, r.Payload64)
}

// setPayload keeps payload in the record.
func (r *Record) setPayload(b []byte) { r.Payload, r.PayloadText, r.Payload64 = Split(b) }

// setResult keeps b as the result.
func (r *Record) setResult(b []byte) { r.Result, r.ResultText, r.Result64 = Split(b) }

// ResultBytes returns the result as it was handed in.
func (r *Record) ResultBytes() []byte {
	return either(r.Result, r.ResultText, r.Result64)
}

// Split returns b as JSON when encoding it as such gives the same bytes back, else as
// text when it is some, else as bytes for base64. So a person can read it in etcd.
func Split(b []byte) (j json.RawMessage, text string, rest []byte) {
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

// pack keeps a payload in the record, or notes that it lies beside.
func (r *Record) pack(payload []byte) {
	r.Beside, r.Payload, r.PayloadText, r.Payload64 = 0, nil, "", nil
	if len(payload) > InlineLimit {
		r.Beside = len(payload)
		return
	}
	r.setPayload(payload)
}

// fieldNames lists the JSON names of a struct.
func fieldNames[T any]() map[string]struct{} {
	names := map[string]struct{}{}
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" {
			names[name] = struct{}{}
		}
	}
	return names
}

// Note is the value of progress/<id>: the latest report and checkpoint.
type Note struct {
	Nonce          string          `json:"w"`
	Token          Token           `json:"token"`
	At             time.Time       `json:"at"`
	Progress       json.RawMessage `json:"progress,omitempty"`
	ProgressText   string          `json:"progress_text,omitempty"`
	Progress64     []byte          `json:"progress_base64,omitempty"`
	Checkpoint     json.RawMessage `json:"checkpoint,omitempty"`
	CheckpointText string          `json:"checkpoint_text,omitempty"`
	Checkpoint64   []byte          `json:"checkpoint_base64,omitempty"`
}

// ProgressBytes returns the report as it was handed in.
func (n *Note) ProgressBytes() []byte { return either(n.Progress, n.ProgressText, n.Progress64) }

// CheckpointBytes returns the checkpoint as it was handed in.
func (n *Note) CheckpointBytes() []byte {
	return either(n.Checkpoint, n.CheckpointText, n.Checkpoint64)
}

// either joins what split took apart.
func either(j json.RawMessage, text string, rest []byte) []byte {
	switch {
	case rest != nil:
		return rest
	case text != "":
		return []byte(text)
	}
	return j
}

// Size is about what the record takes in etcd.
func (r *Record) Size() int {
	n := 512 + len(r.PayloadBytes()) + len(r.ResultBytes())
	for _, a := range r.Attempts {
		n += 200 + len(a.Error) + len(a.Reason)
	}
	for k, v := range r.Labels {
		n += len(k) + len(v)
	}
	return n
}
