package roles

import (
	"reflect"
	"testing"
)

func TestSpans(t *testing.T) {
	const all = "\x00"
	p := Granted{read: merged([]Span{{"/b/", "/b0"}, {"/a/", "/a0"}, {"/a0", "/a9"}, {"/c", all}, {"/d", "/e"}})}
	if want := []Span{{"/a/", "/a9"}, {"/b/", "/b0"}, {"/c", all}}; !reflect.DeepEqual(p.read, want) {
		t.Fatalf("merged: %q", p.read)
	}
	for _, tc := range []struct {
		want  Span
		parts []Span
		whole bool
	}{
		{Span{"/a/", "/a0"}, []Span{{"/a/", "/a0"}}, true},
		{Span{"/a/x/", "/a/x0"}, []Span{{"/a/x/", "/a/x0"}}, true},
		{Span{"/", "/bz"}, []Span{{"/a/", "/a9"}, {"/b/", "/b0"}}, false},
		{Span{"/d", "/e"}, []Span{{"/d", "/e"}}, true},
		{Span{"/c", all}, []Span{{"/c", all}}, true},
		{Span{"/0", "/1"}, nil, false},
	} {
		if parts, whole := p.Readable(tc.want); !reflect.DeepEqual(parts, tc.parts) || whole != tc.whole {
			t.Errorf("%q: %q, %v", tc.want, parts, whole)
		}
	}
	if p.Writable(Span{"/a/", "/a0"}) {
		t.Error("may write what it may only read")
	}
	if parts, whole := (Granted{Everything: true}).Readable(Span{"/x", "/y"}); len(parts) != 1 || !whole || !(Granted{Everything: true}).Writable(Span{"/x", "/y"}) {
		t.Error("root may do everything")
	}
}
