package job

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// sameHead fails unless the quick reader of a value, where it takes it, sees what
// decoding sees.
func sameHead(t *testing.T, value []byte) (quick bool) {
	t.Helper()
	var h Head
	if quick = h.read(value) && h.plausible(); !quick {
		return false
	}
	r, err := Decode(value)
	if err != nil {
		if !errors.Is(err, ErrUndecodable) {
			t.Fatal(err)
		}
		return true // broken inside of a value: refused once it is decoded
	}
	want, err := headFrom(r)
	if err != nil {
		t.Fatal(err)
	}
	log, wantLog := h.Log(), want.Log()
	end := h.LastEnd()
	if n := len(wantLog); n > 0 && !end.Equal(wantLog[n-1].EndedAt) && !wantLog[n-1].EndedAt.IsZero() {
		t.Errorf("%s: the last attempt ended at %v, want %v", value, end, wantLog[n-1].EndedAt)
	}
	if !reflect.DeepEqual(log, wantLog) {
		t.Errorf("%s: log %+v, want %+v", value, log, wantLog)
	}
	if string(h.ID) != r.ID || string(h.Kind) != r.Kind || string(h.Owner) != r.Owner || string(h.Outcome) != r.Outcome ||
		h.priority != r.Priority || h.version != r.Version || h.seq != r.Seq || h.ownerRev != r.OwnerRev || !h.runAt.Equal(r.RunAt) ||
		!ParseTime(h.EnqueuedAt).Equal(r.EnqueuedAt) || !ParseTime(h.FinishedAt).Equal(r.FinishedAt) {
		t.Errorf("%q: read %q", value, [][]byte{h.ID, h.Kind, h.Owner, h.Outcome, h.EnqueuedAt, h.FinishedAt})
	}
	return true
}

func TestHeadsAreReadAsRecordsAre(t *testing.T) {
	for name, r := range goldenRecords(t) {
		value, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if quick := sameHead(t, value); !quick {
			t.Errorf("%s is not read quickly: %s", name, value)
		}
	}
	const start = `{"w":"00000000000000aa","v":1,"id":"x"`
	for value, quick := range map[string]bool{
		start + `}`: true,
		start + `,"payload":{"a":"}\"]\\","b":[1,[2]]},"kind":"k"}`:                            true,
		start + `,"payload":"\\","kind":"k"}`:                                                  true,
		start + `,"attempts":[{"attempt":1,"error":"\"ended_at\":\"2026-01-01T00:00:00Z\""}]}`: true,
		// What is unusual is left to the decoder.
		start + `,"kind":"k\n"}`:               false,
		start + `,"Kind":"k"}`:                 false,
		start + `,"future":1}`:                 false,
		start + `, "kind":"k"}`:                false,
		start + `,"kind":null}`:                false,
		start + `,"kind":"k"`:                  false,
		start + `,"kind":`:                     false,
		start + `,"kind":"k`:                   false,
		start + `,"payload":[1`:                false,
		start + `,`:                            false,
		start + `} `:                           false,
		start + `,"owner":"o"}`:                false,
		start + `,"v":3}`:                      false,
		start + `,"w":"b"}`:                    false,
		`{"w":"00000000000000aa"}`:             false,
		`{"w":"00000000000000aa","v":1`:        false,
		`{"id":"x"}`:                           false,
		``:                                     false,
		start + `,"seq":18446744073709551615}`: false,
	} {
		if got := sameHead(t, []byte(value)); got != quick {
			t.Errorf("%s: read quickly: %v, want %v", value, got, quick)
		}
	}
}

// Wherever a byte of a record is wrong or missing, the head is either that of the record
// or left to the decoder.
func TestHeadsOfBrokenRecords(t *testing.T) {
	for _, r := range goldenRecords(t) {
		value, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		value = value[:min(len(value), 1500)]
		for i := range value {
			sameHead(t, append(append([]byte(nil), value[:i]...), value[i+1:]...))
			for _, b := range []byte(`"\\,:{}[]0a `) {
				broken := append([]byte(nil), value...)
				broken[i] = b
				sameHead(t, broken)
			}
		}
	}
}

func FuzzHead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, value []byte) { sameHead(t, value) })
}

// A head that names another job than its key is refused as the record is.
func TestHeadsNameTheJobOfTheirKey(t *testing.T) {
	w := testTxns(t, "")
	for id, key := range map[string]string{"x": w.Keys.Job("x"), "a b/ä": w.Keys.Job("a b/ä")} {
		r := New(Description{ID: id}, 1, testNow)
		r.Nonce = testNonce
		value, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		h, err := w.HeadOf(InJobs, &mvccpb.KeyValue{Key: []byte(key), Value: value})
		if err != nil || string(h.ID) != id {
			t.Errorf("%s: %q, %v", key, h.ID, err)
		}
		if _, err := w.HeadOf(InJobs, &mvccpb.KeyValue{Key: []byte(w.Keys.Job("y")), Value: value}); !errors.Is(err, ErrUndecodable) {
			t.Errorf("%s under another key: %v", id, err)
		}
	}
}

// Heads have the state that their records have.
func TestHeadsHaveTheStateOfTheirRecords(t *testing.T) {
	later := testNow.Add(time.Hour)
	for _, r := range []*Record{
		{}, {RunAt: later}, {Owner: "a", OwnerRev: 1}, {Owner: "b", OwnerRev: 1}, {Outcome: OutcomeCancelled}, {Outcome: OutcomeCompleted},
		{RunAt: later, Attempts: []Attempt{{Outcome: OutcomeFailed}}}, {RunAt: later, Attempts: []Attempt{{Outcome: OutcomeLost}}},
		{RunAt: later, Attempts: []Attempt{{Outcome: OutcomeLost}, {Outcome: OutcomeSnoozed}}}, {Attempts: []Attempt{{Outcome: OutcomeFailed}}},
	} {
		r.ID, r.Version, r.Nonce = "x", 1, testNonce
		value, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var h Head
		if !h.read(value) {
			t.Fatalf("%s is not read", value)
		}
		lives := func(sid string, rev int64) bool { return sid == "a" && rev == 1 }
		for _, where := range []Place{InJobs, InDone, InDead} {
			if got, want := h.State(where, testNow, lives), r.State(where, testNow, lives); got != want {
				t.Errorf("%s in %d: %s, want %s", value, where, got, want)
			}
		}
	}
}

func BenchmarkHead(b *testing.B) {
	r := New(Description{ID: "job-123456", Kind: "send", Payload: []byte(`{"to":"` + strings.Repeat("x", 900) + `"}`)}, 1, testNow)
	r.Nonce = testNonce
	value, err := r.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		var h Head
		if !h.read(value) {
			b.Fatal("not read")
		}
	}
}
