package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutantEnv names the mutant that runs; none where it is not set.
const mutantEnv = "LEASEKIT_TEST_MUTANT"

// root is the module's directory.
const root = "../.."

// mutation is a mutant that has found its place.
type mutation struct {
	mutant
	src  *source
	decl *ast.FuncDecl
	edit edit
}

// suffix is what the names of the mutant's copies end in.
func (m mutant) suffix() string { return "__" + strings.ReplaceAll(m.at, "-", "_") }

// locate finds the place of each mutant. Each has one marker, and each marker one.
func locate(mutants []mutant, marks map[string][]mark) (found []mutation, errs error) {
	used := map[string]bool{}
	for _, m := range mutants {
		used[m.at] = true
		if len(marks[m.at]) != 1 {
			errs = errors.Join(errs, fmt.Errorf("%s: it has %d markers, want one: %v", m.at, len(marks[m.at]), marks[m.at]))
			continue
		}
		at := marks[m.at][0]
		decl, spots, err := at.spots()
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		change, err := m.how.edit(at.src, spots)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%v: %w", at, err))
			continue
		}
		found = append(found, mutation{mutant: m, src: at.src, decl: decl, edit: change})
	}
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		if !used[name] {
			errs = errors.Join(errs, fmt.Errorf("%v: no mutant of the table has this marker", marks[name]))
		}
	}
	return found, errs
}

// weave returns the text of a file in which each function that has mutants asks which
// of its copies to be.
func weave(src *source, mutations []mutation) ([]byte, error) {
	out, at := []byte(nil), 0
	for _, d := range src.tree.Decls {
		decl, ok := d.(*ast.FuncDecl)
		mine := slices.DeleteFunc(slices.Clone(mutations), func(m mutation) bool { return m.decl != decl })
		if !ok || len(mine) == 0 {
			continue
		}
		out = append(out, src.text[at:src.offset(decl.Pos())]...)
		out = append(out, choice(src, decl, mine)...)
		for _, m := range mine {
			out = append(out, copied(src, decl, m.suffix(), m.edit, m.at+":1")...)
		}
		out = append(out, copied(src, decl, "__", edit{}, fmt.Sprintf("%s:%d", path.Base(src.path), src.fset.Position(decl.Pos()).Line))...)
		at = src.offset(decl.End())
	}
	out = append(out, src.text[at:]...)
	if _, err := parse(src.path, out); err != nil {
		return nil, fmt.Errorf("mutated %s: %w", src.path, err)
	}
	return out, nil
}

// choice is the function that calls one of its copies.
func choice(src *source, decl *ast.FuncDecl, mutations []mutation) string {
	receiver, call := "", ""
	if decl.Recv != nil {
		receiver, call = "(self__ "+src.of(decl.Recv.List[0].Type)+") ", "self__."
	}
	var params, args []string
	for _, field := range decl.Type.Params.List {
		for range max(len(field.Names), 1) {
			name := fmt.Sprintf("p%d__", len(params))
			params = append(params, name+" "+src.of(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	results, give, done := "", "", "\n\t\treturn"
	if decl.Type.Results != nil {
		results, give, done = src.of(decl.Type.Results)+" ", "return ", ""
	}
	name := decl.Name.Name
	chosen := func(suffix string) string {
		return fmt.Sprintf("%s%s%s%s(%s)%s", give, call, name, suffix, strings.Join(args, ", "), done)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func %s%s(%s) %s{\n\tswitch mutant__ {\n", receiver, name, strings.Join(params, ", "), results)
	for _, m := range mutations {
		fmt.Fprintf(&b, "\tcase %q:\n\t\t%s\n", m.at, chosen(m.suffix()))
	}
	fmt.Fprintf(&b, "\tdefault:\n\t\t%s\n\t}\n}\n", chosen("__"))
	return b.String()
}

// copied is the function under another name, with one edit, and with the place that
// the compiler is to name.
func copied(src *source, decl *ast.FuncDecl, suffix string, e edit, line string) string {
	from, name, to := src.offset(decl.Pos()), src.offset(decl.Name.End()), src.offset(decl.End())
	if e == (edit{}) {
		e.from, e.to = to, to
	}
	return fmt.Sprintf("\n//line %s\n%s%s%s%s%s", line, src.text[from:name], suffix, src.text[name:e.from], e.text, src.text[e.to:to])
}

// weaveAll returns the texts of all files with mutants, by their paths, and of the
// files that know which mutant runs.
func weaveAll(mutants []mutant) (map[string][]byte, error) {
	marks, err := allMarks()
	if err != nil {
		return nil, err
	}
	found, errs := locate(mutants, marks)
	files := map[*source][]mutation{}
	for _, m := range found {
		files[m.src] = append(files[m.src], m)
	}
	woven := map[string][]byte{}
	for src, ms := range files {
		woven[src.path], err = weave(src, ms)
		errs = errors.Join(errs, err)
		woven[path.Dir(src.path)+"/mutant__.go"] = chooser(src.tree.Name.Name)
	}
	return woven, errs
}

// chooser is the file of a package that knows which mutant runs.
func chooser(pkg string) []byte {
	return fmt.Appendf(nil, "package %s\n\nimport \"os\"\n\nvar mutant__ = os.Getenv(%q)\n", pkg, mutantEnv)
}

// overlay writes what was woven to dir, and the list that go build takes.
func overlay(t *testing.T, dir string, woven map[string][]byte) (list string) {
	t.Helper()
	replace := map[string]string{}
	for file, text := range woven {
		real, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		replace[real] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(replace[real], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list = filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(list, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// packages are those whose tests the mutants name, sorted.
func packages(mutants []mutant) (dirs []string) {
	for _, m := range mutants {
		dirs = append(dirs, m.pkg)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
