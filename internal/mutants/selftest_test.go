package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// inFunction makes a file of statements.
func inFunction(t *testing.T, body string) *source {
	t.Helper()
	src, err := parse("p/f.go", []byte("package p\n\nfunc f() {\n"+body+"\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// marksOf lists the markers of one file by their names.
func marksOf(t *testing.T, src *source) map[string][]mark {
	t.Helper()
	found := map[string][]mark{}
	list, err := src.marks()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		found[m.name] = append(found[m.name], m)
	}
	return found
}

// Every change does what it says to what begins at its marker.
func TestChanges(t *testing.T) {
	for name, test := range map[string]struct {
		how        change
		body, want string
	}{
		"statement":            {drop, "a()\nb() //mutant:m\nc()", "a()\nif false { b() } //mutant:m\nc()"},
		"statement below":      {drop, "a()\n// Why.\n//mutant:m\nb()", "a()\n// Why.\n//mutant:m\nif false { b() }"},
		"statement with block": {drop, "if a { //mutant:m\nb()\n}", "if false { if a { //mutant:m\nb()\n} }"},
		"case of a select":     {drop, "select {\ncase <-a: //mutant:m\nb()\ncase <-c:\n}", "select {\n\ncase <-c:\n}"},
		"element":              {drop, "x = []T{\na,\nb(1), //mutant:m\nc,\n}", "x = []T{\na,\nc,\n}"},
		"last element":         {drop, "x = []T{\na,\nb, //mutant:m\n}", "x = []T{\na, //mutant:m\n}"},
		"only element":         {drop, "x = []T{\na, //mutant:m\n}", "x = []T{\n //mutant:m\n}"},
		"argument":             {drop, "x = f(a,\nb+c) //mutant:m", "x = f(a) //mutant:m"},
		"field":                {drop, "x = T{\nA: a, //mutant:m\nB: b,\n}", "x = T{\nB: b,\n}"},
		"expression of a case": {drop, "switch {\ncase a,\nb == 1, //mutant:m\nc:\n}", "switch {\ncase a,\nc:\n}"},
		"operand of and":       {drop, "if a && /*mutant:m*/ b == c && d {\n}", "if a && /*mutant:m*/ (true || (b == c)) && d {\n}"},
		"first operand":        {drop, "x = /*mutant:m*/ a || b || c", "x = /*mutant:m*/ (false && (a)) || b || c"},
		"operand in operand":   {drop, "x = a || /*mutant:m*/ b && c", "x = a || /*mutant:m*/ (false && (b && c))"},
		"operand on its line":  {drop, "x = a &&\nb //mutant:m", "x = a &&\n(true || (b)) //mutant:m"},
		"if":                   {never, "if a := b(); a || c { //mutant:m\n}", "if a := b(); (false && (a || c)) { //mutant:m\n}"},
		"else if":              {always, "if a {\n} else if b { //mutant:m\n}", "if a {\n} else if (true || (b)) { //mutant:m\n}"},
		"for":                  {never, "for a { //mutant:m\n}", "for (false && (a)) { //mutant:m\n}"},
		"case":                 {never, "switch {\ncase a: //mutant:m\n}", "switch {\ncase (false && (a)): //mutant:m\n}"},
		"result":               {always, "return a && b //mutant:m", "return (true || (a && b)) //mutant:m"},
		"part of a result":     {never, "return a || /*mutant:m*/ b", "return a || /*mutant:m*/ (false && (b))"},
		"emptied":              {empty, "for range a() { //mutant:m\n}", "for range a()[:0] { //mutant:m\n}"},
		"value of a field":     {"1", "x = T{\nA: a, //mutant:m\n}", "x = T{\nA: 1, //mutant:m\n}"},
		"value assigned":       {"0 * ($)", "x := a + b //mutant:m", "x := 0 * (a + b) //mutant:m"},
		"another statement":    {"return", "a++ //mutant:m", "return //mutant:m"},
		"two results":          {"return nil, b", "return a, b //mutant:m", "return nil, b //mutant:m"},
	} {
		t.Run(name, func(t *testing.T) {
			src := inFunction(t, test.body)
			found, err := locate([]mutant{{at: "m", how: test.how}}, marksOf(t, src))
			if err != nil {
				t.Fatal(err)
			}
			e := found[0].edit
			got := string(src.text[:e.from]) + e.text + string(src.text[e.to:])
			if want := "package p\n\nfunc f() {\n" + test.want + "\n}\n"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What the table and the markers do not agree on, and what cannot be changed, is said.
func TestMarkersThatDoNotFit(t *testing.T) {
	for name, test := range map[string]struct {
		how        change
		body, want string
	}{
		"no marker":           {drop, "a()", "it has 0 markers"},
		"two markers":         {drop, "a() //mutant:m\nb() //mutant:m", "it has 2 markers"},
		"marker of no mutant": {drop, "a() //mutant:m\nb() //mutant:other", "other (p/f.go:5:5)"},
		"nothing follows":     {drop, "a()\n//mutant:m", "begins there"},
		"a comma follows":     {drop, "f(a /*mutant:m*/, b)", "begins there"},
		"no condition":        {never, "a++ //mutant:m", "it has no condition"},
		"nothing to drop":     {drop, "return a + /*mutant:m*/ b", "no statement, element or operand"},
		"no change":           {"$", "a() //mutant:m", "changes nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := locate([]mutant{{at: "m", how: test.how}}, marksOf(t, inFunction(t, test.body)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := inFunction(t, "a() // mutant: m").marks(); err == nil {
		t.Error("a misspelt marker is taken for a comment")
	}
}

// A program with mutants in it is as it was, or has the one that is asked for.
func TestOneMutantRunsAtATime(t *testing.T) {
	src, err := parse("main.go", []byte(`package main

type list struct{ of []string }

func (l *list) add(s ...string) (n int) {
	l.of = append(l.of, s...) //mutant:add
	return len(l.of)          //mutant:count
}

func say(_ string, n, of int) {
	if n > 0 { //mutant:say
		println(n, of)
	}
}

func main() {
	var l list
	say("", 1+l.add("a", "b"), len(l.of))
}
`))
	if err != nil {
		t.Fatal(err)
	}
	found, err := locate([]mutant{{at: "add", how: drop}, {at: "count", how: "10 * $"}, {at: "say", how: never}}, marksOf(t, src))
	if err != nil {
		t.Fatal(err)
	}
	woven, err := weave(src, found)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"main.go": woven, "mutant__.go": chooser("main"), "go.mod": []byte("module m\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "m", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"": "3 2\n", "add": "1 0\n", "count": "21 2\n", "say": "", "none": "3 2\n"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "m"))
		cmd.Env = append(os.Environ(), mutantEnv+"="+name)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("with %q: got %q, %v, want %q", name, out, err, want)
		}
	}
}
