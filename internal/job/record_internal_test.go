package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/keyspace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)

const testNonce = "00000000000000aa"

// goldenRecords are records as they are written, one per state and shape.
func goldenRecords(t *testing.T) map[string]*Record {
	t.Helper()
	open := New(Description{
		ID: "job/1 ä", Kind: "resize", Payload: []byte(`{"html":"<b>&</b>","n":1.50}`), Priority: 7,
		RunAt: testNow.Add(time.Hour), Timeout: 90 * time.Second, MaxAttempts: 4, MaxLosses: 2,
		Labels: map[string]string{"team": "a<b", "app": "x"}, Trace: map[string]string{"traceparent": "00-1"},
	}, 3, testNow)
	open.Nonce, open.Born = testNonce, "00000000000000bb"
	due := *open
	due.RunAt = time.Time{}
	apply := func(r *Record, where Place, e Event) *Record {
		e.Now, e.Nonce, e.Delay = testNow.Add(time.Minute), testNonce, func(int) time.Duration { return time.Minute }
		n, err := Transition(r, where, e)
		if err != nil {
			t.Fatal(err)
		}
		return n.Record
	}
	claimed := apply(&due, InJobs, Event{Verb: VerbClaim, Owner: "host.0123456789abcdef", OwnerRev: 1 << 60})
	done := apply(claimed, InJobs, Event{Verb: VerbComplete, Token: 1<<60 + 1, Result: []byte(`["<ok>"]`)})
	dead := apply(claimed, InJobs, Event{Verb: VerbFail, Token: 12, Err: "no such file\n\x1b[0m", Permanent: true})
	moved := apply(claimed, InJobs, Event{Verb: VerbMove, Token: 12, By: By{Actor: "ann", Reason: "why", BreakClaim: true}, From: "mail"})
	binary := New(Description{ID: "b", Payload: []byte{0, 1, 0xff}}, 1, testNow)
	beside := New(Description{ID: "c", Payload: bytes.Repeat([]byte("x"), InlineLimit+1), AtMostOnce: true}, 1, testNow)
	for _, r := range []*Record{binary, beside} {
		r.Nonce, r.Born = testNonce, "00000000000000bb"
	}
	return map[string]*Record{"open": open, "claimed": claimed, "done": done, "dead": dead, "moved": moved, "binary": binary, "beside": beside}
}

func TestRecordsAreWrittenAsTheGoldenFiles(t *testing.T) {
	for name, r := range goldenRecords(t) {
		got, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
		if head := `{"w":"` + testNonce + `",`; !bytes.HasPrefix(got, []byte(head)) || keyspace.NonceOf(got) != r.Nonce {
			t.Errorf("%s does not begin with its head nonce: %.40s", name, got)
		}
		back, err := Decode(want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(back, r) {
			t.Errorf("%s came back as\n%+v, want\n%+v", name, back, r)
		}
		again, err := back.Encode()
		if err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s was rewritten as\n%s, want\n%s", name, again, want)
		}
	}
}

// A newer program's fields are its own: an older one that moves the job keeps them.
func TestUnknownFieldsSurviveARewrite(t *testing.T) {
	value := `{"w":"00000000000000aa","v":1,"future":{"a":[1, 2.50,"<&>"]},"id":"x","born":"b","zeta":9007199254740993,"ä\"":null}`
	r, err := Decode([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Event{{Verb: VerbClaim, Owner: "s", OwnerRev: 1}, {Verb: VerbFail}, {Verb: VerbCancel}} {
		e.Now, e.Nonce, e.Delay = testNow, "00000000000000cc", func(int) time.Duration { return 0 }
		n, err := Transition(r, InJobs, e)
		if err != nil {
			t.Fatal(err)
		}
		b, err := n.Record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = Decode(b); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"future": `{"a":[1, 2.50,"<&>"]}`, "zeta": "9007199254740993", "ä\"": "null"} {
			if got := string(all[name]); got != want {
				t.Errorf("after %s, %q is %s, want %s", e.Verb, name, got, want)
			}
		}
		if keyspace.NonceOf(b) != "00000000000000cc" {
			t.Errorf("after %s, the head nonce does not come first: %.50s", e.Verb, b)
		}
	}
}

func TestUndecodableRecords(t *testing.T) {
	const head = `{"w":"00000000000000aa",`
	for name, tc := range map[string]struct{ value, says string }{
		"empty":             {"", "head nonce"},
		"not json":          {"hello", "head nonce"},
		"no nonce":          {`{"v":1,"id":"x"}`, "head nonce"},
		"nonce not first":   {`{"v":1,"w":"00000000000000aa","id":"x"}`, "head nonce"},
		"bad nonce":         {`{"w":"00000000000000AA","v":1,"id":"x"}`, "head nonce"},
		"cut off":           {head + `"v":1,"id":"x"`, ""},
		"no id":             {head + `"v":1}`, "missing"},
		"no version":        {head + `"id":"x"}`, "missing"},
		"newer":             {head + `"v":3,"id":"x"}`, "newer"},
		"newer, other form": {head + `"v":3,"id":7}`, "newer"},
		"wrong type":        {head + `"v":1,"id":7}`, ""},
		"two nonces":        {head + `"v":1,"id":"x","w":"00000000000000bb"}`, "two head nonces"},
		"nonce in capitals": {head + `"v":1,"id":"x","W":"00000000000000bb"}`, "two head nonces"},
		"something follows": {head + `"v":1,"id":"x"}{}`, "follows"},
		"owner without rev": {head + `"v":1,"id":"x","owner":"s"}`, "owner"},
		"owner rev no text": {head + `"v":1,"id":"x","owner":"s","owner_rev":5}`, ""},
		"broken time":       {head + `"v":1,"id":"x","run_at":"soon"}`, ""},
		"broken base64":     {head + `"v":1,"id":"x","payload_base64":"%"}`, ""},
		"list":              {`["w"]`, "head nonce"},
	} {
		r, err := Decode([]byte(tc.value))
		if !errors.Is(err, ErrUndecodable) || r != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		} else if !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %q does not say %q", name, err, tc.says)
		}
	}
	if _, err := Decode([]byte(head + `"v":1,"id":"x"}` + " \n")); err != nil {
		t.Errorf("white space at the end: %v", err)
	}
}

func TestARecordUnderAnotherJobsKeyIsUndecodable(t *testing.T) {
	txns := testTxns(t, "/t/")
	value, err := New(Description{ID: "a"}, 1, testNow).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for where := InJobs; where <= InDead; where++ {
		if _, err := txns.Decode(where, &mvccpb.KeyValue{Key: []byte(txns.Key(where, "a")), Value: value}); err != nil {
			t.Errorf("in %d: %v", where, err)
		}
		if _, err := txns.Decode(where, &mvccpb.KeyValue{Key: []byte(txns.Key(where, "b")), Value: value}); !errors.Is(err, ErrUndecodable) {
			t.Errorf("in %d, under b: got %v", where, err)
		}
	}
}

func testTxns(t testing.TB, root string) Txns {
	t.Helper()
	space, err := keyspace.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return Txns{Keys: space.Queue("q"), Space: space}
}

// payloads are inputs that encodings like to change.
func payloads() [][]byte {
	ps := [][]byte{
		nil, []byte("null"), []byte("true"), []byte(" 1"), []byte("1 "), []byte("1"), []byte("-0"), []byte("1.50e+3"), []byte("9007199254740993"),
		[]byte(`""`), []byte(`"<>&"`), []byte("\"\u2028\u2029\""), []byte(`"\u003c"`), []byte(`"\/"`), []byte(`{"a":1,"a":2}`), []byte(`{"b":1,"a":[]}`),
		[]byte("{\n}"), []byte("{} {}"), []byte("plain"), []byte(`{"w":"00000000000000bb"}`), []byte("\"\xff\""), []byte("\x00"), []byte("\n"), []byte("\ufeff{}"),
		[]byte(`"\ud800"`), []byte(strings.Repeat("[", 300) + strings.Repeat("]", 300)),
	}
	for i := range 256 {
		ps = append(ps, []byte{byte(i)}, []byte{'"', byte(i), '"'})
	}
	return ps
}

func checkPayload(t *testing.T, p []byte) {
	t.Helper()
	if len(p) > InlineLimit {
		p = p[:InlineLimit]
	}
	r := New(Description{ID: "x", Payload: p}, 1, testNow)
	b, err := r.Encode()
	if err != nil {
		t.Fatalf("encode %q: %v", p, err)
	}
	back, err := Decode(b)
	if err != nil {
		t.Fatalf("%q: %v", p, err)
	}
	if got := back.PayloadBytes(); !bytes.Equal(got, p) {
		t.Errorf("payload %q came back as %q", p, got)
	}
	if !utf8.Valid(b) || keyspace.NonceOf(b) != r.Nonce {
		t.Errorf("payload %q makes a record that others cannot read: %q", p, b)
	}
}

func TestPayloadsComeBackByteForByte(t *testing.T) {
	for _, p := range payloads() {
		checkPayload(t, p)
	}
}

func FuzzPayload(f *testing.F) {
	for _, p := range payloads() {
		f.Add(p)
	}
	f.Fuzz(checkPayload)
}

func FuzzDecodeRecord(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"w":"00000000000000aa","v":1,"id":"x","future":[1],"attempts":[{"attempt":-1,"new":1}]}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Decode(value)
		if err != nil {
			if !errors.Is(err, ErrUndecodable) {
				t.Fatalf("%q: %v is no ErrUndecodable", value, err)
			}
			return
		}
		b, err := r.Encode()
		if err != nil {
			t.Fatalf("%q was read but cannot be written: %v", value, err)
		}
		if _, err := Decode(b); err != nil {
			t.Fatalf("%q was rewritten as %q: %v", value, b, err)
		}
		r.State(InJobs, testNow, func(string, int64) bool { return false })
	})
}

// Results may be nested deeper than a reader of the record accepts.
func TestDeepJSONCanBeReadBack(t *testing.T) {
	for _, depth := range []int{10, 9_000, 9_899, 9_950, 9_999, 10_000, 10_001} {
		result := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		r := New(Description{ID: "x"}, 1, testNow)
		r.setResult(result)
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(b)
		if err != nil {
			t.Fatalf("depth %d: %v", depth, err)
		}
		if !bytes.Equal(back.ResultBytes(), result) {
			t.Errorf("depth %d came back changed", depth)
		}
		if depth < 9_000 && back.Result == nil {
			t.Errorf("depth %d is kept as base64", depth)
		}
	}
	flat := []byte("[" + strings.Repeat("[],", 20_000) + "0]")
	if kept, _, _ := Split(flat); kept == nil {
		t.Error("flat JSON with many brackets is kept as base64")
	}
}

func TestTheTrailIsBounded(t *testing.T) {
	r := &Record{}
	for i := range 3 * LogLimit {
		r.Log(Attempt{Attempt: i + 1, Outcome: OutcomeFailed, Error: strings.Repeat("x", 5000) + fmt.Sprint(i)})
	}
	if len(r.Attempts) != LogLimit || r.LogTotal != 3*LogLimit {
		t.Errorf("got %d entries of %d", len(r.Attempts), r.LogTotal)
	}
	last := r.Attempts[LogLimit-1]
	if last.Attempt != 3*LogLimit || len(last.Error) != MaxError || !strings.HasPrefix(last.Error, "...x") || !strings.HasSuffix(last.Error, "x59") {
		t.Errorf("last entry %d has an error of %d bytes: %.10s", last.Attempt, len(last.Error), last.Error)
	}
}

func TestEqualNeighboursAreCollapsed(t *testing.T) {
	r := &Record{}
	add := func(a Attempt) { a.Attempt = r.LogTotal + 1; r.Log(a) }
	for range 5 {
		add(Attempt{Outcome: OutcomeSnoozed, Owner: "a"})
	}
	add(Attempt{Outcome: OutcomeSnoozed, Owner: "b"})
	add(Attempt{Outcome: OutcomeReleased, Owner: "b"})
	add(Attempt{Outcome: OutcomeFailed, Owner: "b", Error: "e"})
	add(Attempt{Outcome: OutcomeFailed, Owner: "b", Error: "e"})
	add(Attempt{Outcome: OutcomeLost, Owner: "b"})
	add(Attempt{Outcome: OutcomeLost, Owner: "b"})
	var got []string
	sum := 0
	for _, a := range r.Attempts {
		got = append(got, fmt.Sprintf("%d %s %s+%d", a.Attempt, a.Outcome, a.Owner, a.Repeated))
		sum += 1 + a.Repeated
	}
	want := []string{"5 snoozed a+4", "6 snoozed b+0", "7 released b+0", "8 failed b+0", "9 failed b+0", "10 lost b+0", "11 lost b+0"}
	if !reflect.DeepEqual(got, want) || sum != r.LogTotal {
		t.Errorf("got %q, sum %d of %d, want %q", got, sum, r.LogTotal, want)
	}
}

// The trail is part of snapshots that were given out: it is never changed in place.
func TestLogDoesNotWriteIntoOlderTrails(t *testing.T) {
	r := &Record{Attempts: make([]Attempt, 0, 40)}
	r.Log(Attempt{Attempt: 1, Outcome: OutcomeSnoozed})
	old := *r
	r.Log(Attempt{Attempt: 2, Outcome: OutcomeSnoozed})
	if old.Attempts[0].Attempt != 1 {
		t.Error("an older trail changed")
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		s    string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcdefgh", 6, "...fgh"},
		{"ab\xffc", 10, "ab?c"},
		{"ääää", 6, "...ä"},
		{"", 5, ""},
	} {
		if got := Shorten(tc.s, tc.n); got != tc.want {
			t.Errorf("cut(%q, %d) = %q, want %q", tc.s, tc.n, got, tc.want)
		}
	}
}
