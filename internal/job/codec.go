package job

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// field is how one member of a JSON object is written and read. The tables of fields
// say what the struct tags of the same type say, and give the same bytes; they are
// several times faster than encoding/json, which takes what they leave.
type field[T any] struct {
	name string
	// put appends the value, or nothing where the member is left out; false leaves
	// the object to encoding/json.
	put func(b []byte, t *T) ([]byte, bool)
	// set reads a value as put writes it; false leaves the object to encoding/json.
	set func(t *T, v []byte) bool
}

// appendObject writes t; false leaves it to encoding/json.
func appendObject[T any](b []byte, t *T, fields []field[T]) (_ []byte, ok bool) {
	b = append(b, '{')
	first := len(b)
	for _, f := range fields {
		start := len(b)
		if start > first {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), f.name...), '"', ':')
		value := len(b)
		if b, ok = f.put(b, t); !ok {
			return b, false
		}
		if len(b) == value {
			b = b[:start]
		}
	}
	return append(b, '}'), true
}

// scanObject reads an object as appendObject writes it, the members in the order of
// the fields, each at most once.
func scanObject[T any](t *T, object []byte, fields []field[T]) bool {
	next := 0
	return eachMember(object, '{', func(name, value []byte) bool {
		for next < len(fields) && fields[next].name != string(name) {
			next++
		}
		next++
		return next <= len(fields) && fields[next-1].set(t, value)
	})
}

// text is a string; an empty one is left out unless always is set.
func text[T any](name string, always bool, at func(*T) *string) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			if *at(t) == "" && !always {
				return b, true
			}
			return appendText(b, *at(t))
		},
		func(t *T, v []byte) (ok bool) {
			*at(t), ok = scanText(v)
			return ok
		},
	}
}

// whole is an integer; 0 is left out unless always is set.
func whole[T any, N int | int64 | uint64](name string, always bool, at func(*T) *N) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			n := *at(t)
			switch {
			case n == 0 && !always:
				return b, true
			case n < 0:
				return strconv.AppendInt(b, int64(n), 10), true
			}
			return strconv.AppendUint(b, uint64(n), 10), true
		},
		func(t *T, v []byte) bool {
			n, ok := scanWhole(v)
			*at(t) = N(n)
			return ok && (n < 0) == (*at(t) < 0)
		},
	}
}

// quoted is an integer as a string, since it exceeds 2^53; 0 is left out.
func quoted[T any, N ~int64](name string, at func(*T) *N) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			if *at(t) == 0 {
				return b, true
			}
			return append(strconv.AppendInt(append(b, '"'), int64(*at(t)), 10), '"'), true
		},
		func(t *T, v []byte) bool {
			if len(v) < 3 || v[0] != '"' {
				return false
			}
			n, ok := scanWhole(v[1 : len(v)-1])
			*at(t) = N(n)
			return ok && n > 0
		},
	}
}

// truth is a bool; false is left out.
func truth[T any](name string, at func(*T) *bool) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			if *at(t) {
				b = append(b, "true"...)
			}
			return b, true
		},
		func(t *T, v []byte) bool {
			*at(t) = string(v) == "true"
			return *at(t)
		},
	}
}

// moment is a time; a zero one is left out.
func moment[T any](name string, at func(*T) *time.Time) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			if at(t).IsZero() {
				return b, true
			}
			b, err := at(t).AppendText(append(b, '"'))
			return append(b, '"'), err == nil
		},
		func(t *T, v []byte) bool {
			return len(v) > 2 && v[0] == '"' && at(t).UnmarshalText(v[1:len(v)-1]) == nil
		},
	}
}

// raw is JSON as it is; what is read shares the object's memory.
func raw[T any](name string, at func(*T) *json.RawMessage) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			v := *at(t)
			if !bytes.ContainsAny(v, " \t\r\n") {
				return append(b, v...), true
			}
			buf := bytes.NewBuffer(b)
			err := json.Compact(buf, v)
			return buf.Bytes(), err == nil
		},
		func(t *T, v []byte) bool {
			*at(t) = slices.Clip(v)
			return len(bytes.TrimSpace(v)) == len(v) && json.Valid(v)
		},
	}
}

// base64Bytes are bytes; none are left out.
func base64Bytes[T any](name string, at func(*T) *[]byte) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			if len(*at(t)) == 0 {
				return b, true
			}
			return append(base64.StdEncoding.AppendEncode(append(b, '"'), *at(t)), '"'), true
		},
		func(t *T, v []byte) bool {
			s, ok := scanText(v)
			if !ok {
				return false
			}
			var err error
			*at(t), err = base64.StdEncoding.DecodeString(s)
			return err == nil
		},
	}
}

// texts is a map of strings, which is rare: encoding/json does it.
func texts[T any](name string, at func(*T) *map[string]string) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) ([]byte, bool) {
			if len(*at(t)) == 0 {
				return b, true
			}
			v, err := EncodeJSON(*at(t))
			return append(b, v...), err == nil
		},
		func(t *T, v []byte) bool { return json.Unmarshal(v, at(t)) == nil && *at(t) != nil },
	}
}

// objects is an array of objects; an empty one is left out.
func objects[T, E any](name string, fields []field[E], at func(*T) *[]E) field[T] {
	return field[T]{
		name,
		func(b []byte, t *T) (_ []byte, ok bool) {
			if len(*at(t)) == 0 {
				return b, true
			}
			b = append(b, '[')
			for i := range *at(t) {
				if i > 0 {
					b = append(b, ',')
				}
				if b, ok = appendObject(b, &(*at(t))[i], fields); !ok {
					return b, false
				}
			}
			return append(b, ']'), true
		},
		func(t *T, v []byte) bool {
			if v[0] != '[' {
				return false
			}
			for v[0] != ']' {
				v = v[1:]
				var e E
				n := skipValue(v)
				if n <= 0 || !scanObject(&e, v[:n], fields) {
					return false
				}
				*at(t) = append(*at(t), e)
				if v = v[n:]; len(v) == 0 || v[0] != ',' && string(v) != "]" {
					return false
				}
			}
			return true
		},
	}
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
