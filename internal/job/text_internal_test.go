package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// What is text lies in etcd as text, what is JSON as JSON, and only the rest as base64;
// all of it comes back byte for byte.
func TestTextIsKeptAsText(t *testing.T) {
	for _, tc := range []struct{ value, field string }{
		{"plain words", "text"}, {"two\nlines\n", "text"}, {"{\n  \"pretty\": 1\n}\n", "text"}, {`{"a":"b","c":"d"}` + "\n", "text"},
		{`{"compact":[1,2.50,"<&>"]}`, ""}, {`"a string"`, ""}, {"7", ""}, {" 7", "text"}, {"01", "text"},
		{"tab\tand\r\n", "text"}, {`""`, ""}, {`"`, "text"}, {`\`, "text"}, {"\u2028\ufffd\u0080 \u202e", "text"}, {"日本語 <b>&</b>", "text"},
		{"\x1b[31mred", "base64"}, {"nul\x00", "base64"}, {"\x7f", "base64"}, {"\xff", "base64"}, {"half a rune \xe6\x97", "base64"},
		{strings.Repeat("x", MaxResult), "text"}, {strings.Repeat("x", MaxResult+1), "base64"},
	} {
		r := New(Description{ID: "x"}, 1, testNow)
		r.setPayload([]byte(tc.value))
		r.setResult([]byte(tc.value))
		b, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(b)
		if err != nil || string(back.PayloadBytes()) != tc.value || string(back.ResultBytes()) != tc.value {
			t.Fatalf("%.40q came back as %.40q, %.40q, %v", tc.value, back.PayloadBytes(), back.ResultBytes(), err)
		}
		checkScan(t, b)
		var n Note
		n.Progress, n.ProgressText, n.Progress64 = Split([]byte(tc.value))
		n.Checkpoint, n.CheckpointText, n.Checkpoint64 = Split([]byte(tc.value))
		nb, err := EncodeJSON(n)
		if err != nil {
			t.Fatal(err)
		}
		var left Note
		if err := json.Unmarshal(nb, &left); err != nil || string(left.ProgressBytes()) != tc.value || string(left.CheckpointBytes()) != tc.value {
			t.Fatalf("a note of %.40q came back as %.40q, %v", tc.value, left.ProgressBytes(), err)
		}
		suffix := ""
		if tc.field != "" {
			suffix = "_" + tc.field
		}
		for value, fields := range map[string][]string{string(b): {"payload", "result"}, string(nb): {"progress", "checkpoint"}} {
			var all map[string]json.RawMessage
			if err := json.Unmarshal([]byte(value), &all); err != nil {
				t.Fatal(err)
			}
			for _, field := range fields {
				for _, s := range []string{"", "_text", "_base64"} {
					if _, there := all[field+s]; there != (s == suffix) {
						t.Errorf("%.40q: that there is %s is %v", tc.value, field+s, there)
					}
				}
			}
		}
		// Older programs read what they can, and leave alone what they would take for less.
		if want := map[string]int{"text": versionText}[tc.field]; back.Version != max(want, VersionPlain) {
			t.Errorf("%.40q: version %d", tc.value, back.Version)
		}
	}
}

// A requeued job forgets its result, whatever it was, and is one that older programs read.
func TestRequeueForgetsTextToo(t *testing.T) {
	r := New(Description{ID: "x", Payload: []byte("1")}, 1, testNow)
	r.setResult([]byte("words"))
	n, err := Transition(r, InDone, testEvent(VerbRequeue))
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.Record.Encode()
	if err != nil || !bytes.Contains(b, []byte(`"v":1,`)) || bytes.Contains(b, []byte("words")) {
		t.Errorf("got %s, %v", b, err)
	}
	b = bytes.Replace(b, []byte(`"v":1`), []byte(`"v":3`), 1)
	if _, err := Decode(b); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer one: got %v", err)
	}
}
