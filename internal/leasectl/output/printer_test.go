package output

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

type fruit struct {
	Name string `json:"name"`
	Age  string `json:"age"`
}

var fruits = View[fruit]{
	Columns: []Column[fruit]{
		{"NAME", func(f fruit) string { return f.Name }},
		{"AGE", func(f fruit) string { return f.Age }},
	},
	Name: func(f fruit) string { return "fruit/" + f.Name },
	Wide: []Column[fruit]{{"COLOUR", func(fruit) string { return "red" }}},
}

func TestPrintList(t *testing.T) {
	items := []fruit{{"apple", "2d"}, {strings.Repeat("x", 200), ""}, {"a\x1b[31m\nb<", "1s"}}
	pad := strings.Repeat(" ", 200-5)
	tests := []struct {
		format string
		items  []fruit
		want   string
	}{
		{Table, nil, "NAME  AGE\n"},
		{Name, nil, ""},
		{JSON, nil, `{"items":[]}`},
		{JSON, items[:1], `{"items":[{"name":"apple","age":"2d"}]}`},
		{Name, items[:1], "fruit/apple\n"},
		{Table, items[:2], "NAME " + pad + "  AGE\napple" + pad + "  2d\n" + items[1].Name + "  -\n"},
		{Table, items[2:], "NAME          AGE\na\\x1b[31m b<  1s\n"},
		{JSONL, nil, ""},
		{JSONL, items[:1], `{"name":"apple","age":"2d"}` + "\n"},
		{YAML, nil, "items: []\n"},
		{YAML, items[:1], "items:\n- age: 2d\n  name: apple\n"},
		{CSV, nil, "NAME,COLOUR,AGE\n"},
		{CSV, []fruit{{"=1+2", "a,b"}}, "NAME,COLOUR,AGE\n'=1+2,red,\"a,b\"\n"},
		{Wide, items[:1], "NAME   COLOUR  AGE\napple  red     2d\n"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		if err := PrintList(Printer{W: &out, Format: tt.format}, fruits, tt.items); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if tt.format == JSON {
			got = compact(t, out.Bytes())
		}
		if got != tt.want {
			t.Errorf("%s: printed\n%s\nwant\n%s", tt.format, got, tt.want)
		}
	}
}

func TestPrintItem(t *testing.T) {
	var out bytes.Buffer
	if err := PrintItem(Printer{W: &out, Format: JSON}, fruits, fruit{"<apple>", "1s"}); err != nil {
		t.Fatal(err)
	}
	if got, want := compact(t, out.Bytes()), `{"name":"<apple>","age":"1s"}`; got != want {
		t.Errorf("printed %s, want %s", got, want)
	}
}

func compact(t *testing.T, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
