package job

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// field is how one member of a JSON object is written and read: as encoding/json does
// by the same tag, to the same bytes. Whatever the fields leave, it takes.
//
// By it alone a job costs its producers and workers 12 to 15 % more CPU with one worker
// process, and 25 % more with four: in mode claim each of them reads every record of its
// queue twice. Of these, 3 to 9 are for writing.
type field struct {
	name   string
	at     int  // which field of the struct
	always bool // written even where it is empty
	quoted bool // an integer as a string, since it exceeds 2^53
}

// recordFields and attemptFields are what the structs' tags say.
var recordFields, attemptFields = fieldsOf[Record](), fieldsOf[Attempt]()

func fieldsOf[T any]() (fields []field) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		fields = append(fields, field{
			name: name, at: i, always: !strings.Contains(options, "omit"),
			quoted: strings.Contains(options, "string") || f.Type == reflect.TypeFor[Token](),
		})
	}
	return fields
}

// appendObject writes a struct; false leaves it to encoding/json.
func appendObject(b []byte, object reflect.Value, fields []field) (_ []byte, ok bool) {
	b = append(b, '{')
	first := len(b)
	for _, f := range fields {
		v := object.Field(f.at)
		if !f.always && empty(v) {
			continue
		}
		if len(b) > first {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.name...), '"', ':')
		if b, ok = f.put(b, v); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

// scanObject reads an object as appendObject writes it into a struct, the members in
// the order of the fields, each at most once.
func scanObject(object reflect.Value, text []byte, fields []field) bool {
	next := 0
	return eachMember(text, '{', func(name, value []byte) bool {
		for next < len(fields) && fields[next].name != string(name) {
			next++
		}
		next++
		return next <= len(fields) && fields[next-1].set(object.Field(fields[next-1].at), value)
	})
}

// empty tells what is left out of an object.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		t, ok := v.Addr().Interface().(*time.Time)
		return ok && t.IsZero()
	}
	return v.IsZero()
}

// put appends a value; false leaves the object to encoding/json.
func (f field) put(b []byte, v reflect.Value) ([]byte, bool) {
	switch p := v.Addr().Interface().(type) {
	case *string:
		return appendText(b, *p)
	case *bool:
		return strconv.AppendBool(b, *p), true
	case *time.Time:
		b, err := p.AppendText(append(b, '"'))
		return append(b, '"'), err == nil
	case *json.RawMessage:
		return appendRaw(b, *p)
	case *[]byte:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), *p), '"'), true
	case *map[string]string: // which is rare
		text, err := EncodeJSON(*p)
		return append(b, text...), err == nil
	case *[]Attempt:
		return appendAttempts(b, *p)
	}
	switch {
	case v.CanInt() && f.quoted:
		return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"'), true
	case v.CanInt():
		return strconv.AppendInt(b, v.Int(), 10), true
	case v.CanUint():
		return strconv.AppendUint(b, v.Uint(), 10), true
	}
	return b, false
}

// set reads a value as put writes it; false leaves the object to encoding/json. What is
// raw shares the object's memory.
func (f field) set(v reflect.Value, text []byte) (ok bool) {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p, ok = scanText(text)
		return ok
	case *bool:
		*p = string(text) == "true"
		return *p
	case *time.Time:
		return isQuoted(text) && p.UnmarshalText(text[1:len(text)-1]) == nil
	case *json.RawMessage:
		*p = slices.Clip(text)
		return len(bytes.TrimSpace(text)) == len(text) && json.Valid(text)
	case *[]byte:
		return isQuoted(text) && json.Unmarshal(text, p) == nil
	case *map[string]string:
		return json.Unmarshal(text, p) == nil && *p != nil
	case *[]Attempt:
		return scanAttempts(p, text)
	}
	if f.quoted {
		if !isQuoted(text) {
			return false
		}
		text = text[1 : len(text)-1]
	}
	n, ok := scanWhole(text)
	switch {
	case v.CanInt():
		v.SetInt(n)
		return ok && !v.OverflowInt(n) && (n > 0 || !f.quoted)
	case v.CanUint() && n >= 0:
		v.SetUint(uint64(n))
		return ok && !v.OverflowUint(uint64(n))
	}
	return false
}

func isQuoted(text []byte) bool { return len(text) > 2 && text[0] == '"' }

// appendRaw writes JSON as it is, without white space.
func appendRaw(b []byte, raw json.RawMessage) ([]byte, bool) {
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return append(b, raw...), true
	}
	buf := bytes.NewBuffer(b)
	err := json.Compact(buf, raw)
	return buf.Bytes(), err == nil
}

func appendAttempts(b []byte, all []Attempt) (_ []byte, ok bool) {
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendObject(b, reflect.ValueOf(&all[i]).Elem(), attemptFields); !ok {
			return b, false
		}
	}
	return append(b, ']'), true
}

func scanAttempts(all *[]Attempt, text []byte) bool {
	if text[0] != '[' {
		return false
	}
	for text[0] != ']' {
		text = text[1:]
		var a Attempt
		n := skipValue(text)
		if n <= 0 || !scanObject(reflect.ValueOf(&a).Elem(), text[:n], attemptFields) {
			return false
		}
		*all = append(*all, a)
		if text = text[n:]; len(text) == 0 || text[0] != ',' && string(text) != "]" {
			return false
		}
	}
	return true
}

// appendText writes a string without the escapes for HTML.
func appendText(b []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			v, err := EncodeJSON(s)
			return append(b, v...), err == nil
		}
	}
	return append(append(append(b, '"'), s...), '"'), true
}

// scanText reads a string.
func scanText(v []byte) (string, bool) {
	text, ok := plainText(v)
	if !ok && len(v) > 1 && v[0] == '"' {
		var s string
		err := json.Unmarshal(v, &s)
		return s, err == nil
	}
	for _, c := range text {
		if c < ' ' {
			return "", false
		}
	}
	return string(text), ok
}

// scanWhole reads an integer as strconv writes it.
func scanWhole(v []byte) (int64, bool) {
	digits := bytes.TrimPrefix(v, []byte("-"))
	if len(digits) == 0 || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(v) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}
