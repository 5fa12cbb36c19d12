package leasectl

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type fruit struct {
	Name string `json:"name"`
	Age  string `json:"age"`
}

var fruits = view[fruit]{
	columns: []column[fruit]{
		{"NAME", func(f fruit) string { return f.Name }},
		{"AGE", func(f fruit) string { return f.Age }},
	},
	name: func(f fruit) string { return "fruit/" + f.Name },
	wide: []column[fruit]{{"COLOUR", func(fruit) string { return "red" }}},
}

func TestPrintList(t *testing.T) {
	items := []fruit{{"apple", "2d"}, {strings.Repeat("x", 200), ""}, {"a\x1b[31m\nb<", "1s"}}
	pad := strings.Repeat(" ", 200-5)
	tests := []struct {
		format string
		items  []fruit
		want   string
	}{
		{formatTable, nil, "NAME  AGE\n"},
		{formatName, nil, ""},
		{formatJSON, nil, `{"items":[]}`},
		{formatJSON, items[:1], `{"items":[{"name":"apple","age":"2d"}]}`},
		{formatName, items[:1], "fruit/apple\n"},
		{formatTable, items[:2], "NAME " + pad + "  AGE\napple" + pad + "  2d\n" + items[1].Name + "  -\n"},
		{formatTable, items[2:], "NAME          AGE\na\\x1b[31m b<  1s\n"},
		{formatJSONL, nil, ""},
		{formatJSONL, items[:1], `{"name":"apple","age":"2d"}` + "\n"},
		{formatYAML, nil, "items: []\n"},
		{formatYAML, items[:1], "items:\n- age: 2d\n  name: apple\n"},
		{formatCSV, nil, "NAME,COLOUR,AGE\n"},
		{formatCSV, []fruit{{"=1+2", "a,b"}}, "NAME,COLOUR,AGE\n'=1+2,red,\"a,b\"\n"},
		{formatWide, items[:1], "NAME   COLOUR  AGE\napple  red     2d\n"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		if err := printList(printer{w: &out, format: tt.format}, fruits, tt.items); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if tt.format == formatJSON {
			got = compact(t, out.Bytes())
		}
		if got != tt.want {
			t.Errorf("%s: printed\n%s\nwant\n%s", tt.format, got, tt.want)
		}
	}
}

func TestPrintItem(t *testing.T) {
	var out bytes.Buffer
	if err := printItem(printer{w: &out, format: formatJSON}, fruits, fruit{"<apple>", "1s"}); err != nil {
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

func TestConfirm(t *testing.T) {
	var out bytes.Buffer
	a := &app{in: strings.NewReader("y\n"), err: &out}
	for _, m := range []*mutation{{yes: true}, {dryRun: true}} {
		if err := a.confirm(t.Context(), m, "delete %d jobs", 2); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	// A pipe is nobody who could be asked, whatever it holds.
	for _, m := range []*mutation{{}, {noInput: true}} {
		if code := exitCode(a.confirm(t.Context(), m, "delete %d jobs", 2)); code != exitUsage {
			t.Errorf("%+v: exit code %d, want %d", m, code, exitUsage)
		}
	}
	if out.Len() != 0 {
		t.Errorf("asked %q", out.String())
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	m := &mutation{}
	m.addFlags(f)
	if err := f.Parse([]string{"--yes", "--no-input", "--dry-run", "--reason", "r"}); err != nil || *m != (mutation{true, true, true, "r"}) {
		t.Errorf("parsed %+v, %v", m, err)
	}
}

// Every command shows how it is used, says in one line what it does, and stands in a group of the help.
func TestEveryCommandExplainsItself(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, getenv: func(string) string { return "" }}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden { // a part of another command, in a process of its own
			return
		}
		if cmd.Short == "" || cmd.Example == "" && !cmd.HasSubCommands() {
			t.Errorf("%s: Short or Example is missing", cmd.CommandPath())
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && cmd.GroupID == "" {
			t.Errorf("%s: GroupID is missing", cmd.CommandPath())
		}
		if cmd.RunE == nil || cmd.Run != nil {
			t.Errorf("%s: want RunE", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(a, verbs(a)))
}

func TestGroupNeedsAVerb(t *testing.T) {
	var out bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &out, getenv: func(string) string { return "" }}
	jobs := group(&cobra.Command{Use: "jobs"}, &cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "get", Run: func(*cobra.Command, []string) {}})
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"jobs"}, "leasectl: jobs: a verb is missing, one of get, list; try: leasectl jobs --help\n"},
		{[]string{"jobs", "lst"}, "leasectl: unknown command \"lst\" for leasectl jobs; try: leasectl jobs list\n"},
	} {
		out.Reset()
		code := run(t.Context(), a, newRoot(a, []*cobra.Command{jobs}), tt.args)
		if got := out.String(); code != exitUsage || got != tt.want {
			t.Errorf("%v: exit code %d, %q; want %d, %q", tt.args, code, got, exitUsage, tt.want)
		}
	}
}
