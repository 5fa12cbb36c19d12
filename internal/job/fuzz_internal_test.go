package job

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// someRecords are the golden files and records that are odd in some way.
func someRecords(f *testing.F) [][]byte {
	f.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no golden files", err)
	}
	var all [][]byte
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, bytes.TrimSpace(b))
	}
	const head = `{"w":"00000000000000aa","v":1,"id":"x"`
	for _, rest := range []string{
		`}`, `,"future":{"a":[1,2.50]},"Attempt":1}`, `,"ATTEMPTS_TOTAL":7,"new":0}`, `,"id":"y"}`, `,"ID":"y","z":1}`, `,"v":9}`,
		`,"payload":null,"u":null}`, `,"payload":7,"payload_base64":"eA==","u":1}`, `,"result":{"a":1,"a":2}}`, `,"run_at":"9999-12-31T23:59:59.999999999-23:59"}`,
		`,"owner":"a.0123456789abcdef","owner_rev":"9223372036854775807","u":1}`, `,"attempts":[{"attempt":-1,"new":1},null]}`, `,"priority":-9223372036854775808}`,
		`,"attempt":9223372036854775807}`, `,"timeout_ms":9223372036854775807}`, `,"labels":{"":"","a":"\u0000"},"trace":null}`, `,"\u006cosses":3,"u":1}`,
		`,"beside":-1,"payload_beside":-5}`, `,"u":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, `,"u":1}}`, `,"u":"` + "\xff" + `"}`,
	} {
		all = append(all, []byte(head+rest))
	}
	return all
}

// A record that can be read is written so that it reads the same: every field that is
// known, and every one that is not, byte for byte.
func FuzzRecordRewrite(f *testing.F) {
	for _, v := range someRecords(f) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Decode(value)
		if err != nil {
			return
		}
		once := mustEncode(t, r)
		back, err := Decode(once)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", value, once, err)
		}
		if twice := mustEncode(t, back); !bytes.Equal(once, twice) {
			t.Errorf("%q was written as %q and then as %q", value, once, twice)
		}
		if len(back.extra) != len(r.extra) {
			t.Errorf("of %d unknown fields, %d are left", len(r.extra), len(back.extra))
		}
		for name, raw := range r.extra {
			if !bytes.Equal(back.extra[name], raw) {
				t.Errorf("%q: unknown field %q became %q", value, name, back.extra[name])
			}
		}
	})
}

func mustEncode(t *testing.T, r *Record) []byte {
	t.Helper()
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A config is read and written again with the fields that are not known here.
func FuzzConfig(f *testing.F) {
	for _, v := range []string{`{"w":"00000000000000aa"}`, `{"paused":true,"mode":"dispatch","actor":"a","reason":"b","limits":{"gpu":4}}`, `{}`, `null`, `{"Paused":true,"x":1}`, `{"PAUSED":false,"Mode":"dispatch"}`, `[]`, ``, `{"x":` + strings.Repeat("[", 99)} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := DecodeConfig(value)
		if err != nil {
			return
		}
		c.Paused = !c.Paused // as pause and resume do, whatever was there
		txn, err := testTxns(t, "/r/").Configure(c, 1)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", value, err)
		}
		back, err := DecodeConfig(txn.Then[0].ValueBytes())
		if err != nil || back.Paused != c.Paused || back.Mode != c.Mode || back.Actor != c.Actor || back.Reason != c.Reason {
			t.Errorf("%q: %+v became %+v, %v", value, c, back, err)
		}
		for name, raw := range c.extra {
			var want bytes.Buffer
			if json.Compact(&want, raw) != nil || !bytes.Equal(bytes.TrimSpace(back.extra[name]), bytes.TrimSpace(raw)) {
				t.Errorf("%q: unknown field %q became %q", value, name, back.extra[name])
			}
		}
	})
}

// Whatever is in a record that can be read, each attempt of it counts: what a foreign
// hand wrote can not make a job go round for ever.
func FuzzAttemptsCount(f *testing.F) {
	for _, v := range someRecords(f) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := Decode(value)
		if err != nil || r.RunAt.UTC().Year() > 9000 || r.Attempt == math.MaxInt || r.Failures >= math.MaxInt-1 || r.LogTotal >= math.MaxInt-1 {
			return
		}
		now := testNow
		if r.RunAt.After(now) {
			now = r.RunAt
		}
		e := Event{Now: now, Nonce: testNonce, Owner: "me.0123456789abcdef", OwnerRev: 7, Delay: func(int) time.Duration { return 0 }}
		step := func(v Verb) {
			t.Helper()
			e.Verb = v
			n, err := Transition(r, InJobs, e)
			if err != nil {
				t.Fatalf("%s of %q: %v", v, value, err)
			}
			back, err := Decode(mustEncode(t, n.Record))
			if err != nil {
				t.Fatalf("%s of %q: %v", v, value, err)
			}
			r = back
		}
		if r.Claimed() {
			step(VerbBreak)
			if r.Outcome != "" {
				return // it was to be started once, and is dead
			}
		}
		attempt, failures, logged := r.Attempt, r.Failures, r.LogTotal
		step(VerbClaim)
		if !r.Claimed() || r.Owner != e.Owner || r.OwnerRev != e.OwnerRev || r.Attempt != attempt+1 {
			t.Fatalf("%q: claimed by %q at %d, attempt %d after %d", value, r.Owner, r.OwnerRev, r.Attempt, attempt)
		}
		step(VerbFail)
		if r.Claimed() || r.Failures != failures+1 || r.LogTotal != logged+1 {
			t.Fatalf("%q: owner %q, %d failures after %d, %d logged after %d", value, r.Owner, r.Failures, failures, r.LogTotal, logged)
		}
	})
}
