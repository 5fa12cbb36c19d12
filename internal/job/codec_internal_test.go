package job

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fill gives every field of a struct a value that is not left out.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() {
			continue // extra is no field
		}
		switch p := f.Addr().Interface().(type) {
		case *time.Time:
			*p = time.Date(2026, 11, 30, 8, i, 1, 250e6, time.UTC)
		case *json.RawMessage:
			*p = json.RawMessage(`{"a":[1,"two",null]}`)
		case *[]byte:
			*p = []byte{0, 255, byte(i)}
		case *map[string]string:
			*p = map[string]string{"b": "<2>", "a": "1"}
		case *Token:
			*p = Token(i + 1)
		case *[]Attempt:
			*p = make([]Attempt, 2)
			fill(reflect.ValueOf(&(*p)[0]).Elem())
			(*p)[1] = Attempt{Outcome: "released"}
		case *string:
			*p = "text & <" + strings.Repeat("x", i)
		case *bool:
			*p = true
		default:
			if f.CanInt() {
				f.SetInt(int64(1 + i))
			} else {
				f.SetUint(uint64(1 + i))
			}
		}
	}
}

// scan reads a record by its fields.
func scan(r *Record, value []byte) bool {
	return scanObject(reflect.ValueOf(r).Elem(), value, recordFields)
}

// A field of any type and options that a record has is written as encoding/json does
// it, and read: none of them is left to it.
func TestFieldsDoWhatTheTagsSay(t *testing.T) {
	full, empty, negative := &Record{}, &Record{}, &Record{Priority: -7, TimeoutMS: -1, OwnerRev: -3}
	fill(reflect.ValueOf(full).Elem())
	full.Nonce = "8888888888888888"
	for name, r := range map[string]*Record{"all fields": full, "none": empty, "negative numbers": negative} {
		sameCodec(t, name, r)
	}
	value, _ := EncodeJSON(full)
	if back := (&Record{}); !scan(back, value) || !reflect.DeepEqual(back, full) {
		t.Errorf("a record with all fields is read as\n%+v, want\n%+v", back, full)
	}
}

// sameCodec holds the fields' bytes against those of encoding/json.
func sameCodec(t *testing.T, name string, r *Record) {
	t.Helper()
	want, err := EncodeJSON(r)
	got, ok := appendObject(nil, reflect.ValueOf(r).Elem(), recordFields)
	if ok != (err == nil) || ok && !bytes.Equal(got, want) {
		t.Errorf("%s: got, %v,\n%s, encoding/json gives, %v,\n%s", name, ok, got, err, want)
	}
}

// oddRecords are JSON that the fields do not write: encoding/json reads them, or not.
var oddRecords = []string{
	``, `{`, `{}`, `[]`, `{,}`, `{"w":"a",}`, `{"w":"a"} `, `{ "w":"a"}`, `{"w" :"a"}`, `{"w":"a"}{}`, `{"w":"a""v":1}`,
	`{"v":1,"w":"a"}`, `{"v":1,"v":2}`, `{"V":1}`, `{"unknown":1}`, `{"v":01}`, `{"v":-0}`, `{"v":1.5}`, `{"v":1e3}`, `{"v":-}`, `{"v":}`,
	`{"v":9223372036854775807}`, `{"v":9223372036854775808}`, `{"v":"1"}`, `{"v":null}`, `{"seq":-1}`, `{"seq":18446744073709551615}`,
	`{"id":"a\u0062"}`, `{"id":"a` + "\n" + `b"}`, `{"id":"` + "\xff" + `"}`, `{"id":"ü"}`, `{"id":1}`, `{"id":null}`, `{"id":"a}`,
	`{"payload":{"a":}}`, `{"payload":nul}`, `{"payload":null}`, `{"payload": 1}`, `{"payload":[1, 2]}`, `{"payload":"a b"}`, `{"payload":{"a":1}x}`,
	`{"payload_base64":"AA="}`, `{"payload_base64":"AAE="}`, `{"payload_base64":"A\nAE="}`, `{"payload_base64":null}`, `{"payload_base64":""}`,
	`{"labels":null}`, `{"labels":{}}`, `{"labels":{"a":1}}`, `{"labels":{"a":"b"}}`,
	`{"run_at":"2026-11-30T07:49:04.399Z"}`, `{"run_at":"2026-11-30T07:49:04.399+02:00"}`, `{"run_at":"2026-11-30 07:49:04"}`, `{"run_at":null}`, `{"run_at":"0001-01-01T00:00:00Z"}`,
	`{"owner_rev":"5"}`, `{"owner_rev":5}`, `{"owner_rev":"-5"}`, `{"owner_rev":""}`, `{"owner_rev":"05"}`,
	`{"assigned":false}`, `{"assigned":true}`, `{"assigned":1}`,
	`{"attempts":[]}`, `{"attempts":null}`, `{"attempts":[{}]}`, `{"attempts":[null]}`, `{"attempts":[{"attempt":1},{"attempt":2}]}`, `{"attempts":[{"attempt":1},]}`,
	`{"attempts":[{"attempt":1}{"attempt":2}]}`, `{"attempts":[{"attempt":1}`, `{"attempts":[,]}`, `{"attempts":[{"token":"0"}]}`, `{"attempts":[{"token":"-1"}]}`, `{"attempts":[{"token":"7","other":1}]}`,
}

// What the fields read, encoding/json reads as the same; what they do not, they leave
// to it.
func TestOddRecordsAreReadAsEncodingJSONReadsThem(t *testing.T) {
	for _, value := range oddRecords {
		checkScan(t, []byte(value))
	}
}

func checkScan(t *testing.T, value []byte) {
	t.Helper()
	got := &Record{}
	scanned := scan(got, value)
	want, err := parseAnyRecord(value)
	switch {
	case scanned && err != nil:
		t.Errorf("%s is read, although %v", value, err)
	case scanned && !reflect.DeepEqual(got, want):
		t.Errorf("%s is read as\n%+v, encoding/json reads\n%+v", value, got, want)
	}
	if err == nil {
		sameCodec(t, string(value), want)
	}
}

// A record that encode has written is never left to encoding/json: that would be slow.
func TestRecordsOfOursAreScanned(t *testing.T) {
	for name, r := range goldenRecords(t) {
		value, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if !scan(&Record{}, value) {
			t.Errorf("%s is not read by its fields: %s", name, value)
		}
	}
}

func FuzzRecordCodec(f *testing.F) {
	full := &Record{}
	fill(reflect.ValueOf(full).Elem())
	value, err := EncodeJSON(full)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(value)
	for _, odd := range oddRecords {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) > 9000 {
			return // encoding/json stops at 10,000 levels, counted from the record
		}
		checkScan(t, value)
	})
}
