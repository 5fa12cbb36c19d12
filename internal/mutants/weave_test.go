package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutantEnv chooses which mutant runs, by its number; none where it is not set.
const mutantEnv = "LEASEKIT_TEST_MUTANT"

// root is the module's directory.
const root = "../.."

// piece is a function with mutants.
type piece struct {
	decl   *ast.FuncDecl
	copies []numbered
}

type numbered struct {
	n int
	mutant
}

// weave returns the text of a file in which each function that has mutants asks which
// of its copies to be.
func weave(file string, src []byte, mutants []numbered) ([]byte, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	pieces := map[*ast.FuncDecl]*piece{}
	for _, m := range mutants {
		if got := strings.Count(string(src), m.old); got != 1 {
			return nil, fmt.Errorf("%s: its text occurs %d times in %s, want once", m.name, got, file)
		}
		decl := enclosing(fset, parsed, strings.Index(string(src), m.old), len(m.old))
		if decl == nil {
			return nil, fmt.Errorf("%s: its text is not within the body of one function of %s", m.name, file)
		}
		if pieces[decl] == nil {
			pieces[decl] = &piece{decl: decl}
		}
		pieces[decl].copies = append(pieces[decl].copies, m)
	}
	out, at := []byte(nil), 0
	for _, d := range parsed.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || pieces[decl] == nil {
			continue
		}
		out = append(out, src[at:fset.Position(decl.Pos()).Offset]...)
		out = append(out, pieces[decl].text(fset, src)...)
		at = fset.Position(decl.End()).Offset
	}
	out = append(out, src[at:]...)
	if _, err := parser.ParseFile(token.NewFileSet(), file, out, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("mutated %s: %w", file, err)
	}
	return out, nil
}

// enclosing returns the function in whose body the text lies.
func enclosing(fset *token.FileSet, file *ast.File, at, n int) *ast.FuncDecl {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if ok && decl.Body != nil && fset.Position(decl.Body.Lbrace).Offset < at && at+n < fset.Position(decl.Body.Rbrace).Offset+1 {
			return decl
		}
	}
	return nil
}

// text is the function that chooses, the function as it is, and its mutated copies.
func (p *piece) text(fset *token.FileSet, src []byte) string {
	of := func(n ast.Node) string {
		return string(src[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
	}
	var b strings.Builder
	receiver, call := "", ""
	if p.decl.Recv != nil {
		receiver, call = "(self__ "+of(p.decl.Recv.List[0].Type)+") ", "self__."
	}
	var params, args []string
	for _, field := range p.decl.Type.Params.List {
		for range max(len(field.Names), 1) {
			name := fmt.Sprintf("p%d__", len(params))
			params = append(params, name+" "+of(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	results, give := "", ""
	if p.decl.Type.Results != nil {
		results, give = of(p.decl.Type.Results)+" ", "return "
	}
	name := p.decl.Name.Name
	choose := func(n int) string {
		s := fmt.Sprintf("%s%s%s__%d(%s)", give, call, name, n, strings.Join(args, ", "))
		if give == "" {
			s += "\n\t\treturn"
		}
		return s
	}
	fmt.Fprintf(&b, "func %s%s(%s) %s{\n\tswitch mutant__ {\n", receiver, name, strings.Join(params, ", "), results)
	for _, c := range p.copies {
		fmt.Fprintf(&b, "\tcase %d:\n\t\t%s\n", c.n, choose(c.n))
	}
	fmt.Fprintf(&b, "\tdefault:\n\t\t%s\n\t}\n}\n", choose(0))
	whole := of(p.decl)
	head := fset.Position(p.decl.Name.Pos()).Offset - fset.Position(p.decl.Pos()).Offset
	for _, c := range append([]numbered{{}}, p.copies...) {
		fmt.Fprintf(&b, "\n%s%s__%d", whole[:head], name, c.n)
		body := whole[head+len(name):]
		if c.n > 0 {
			body = strings.Replace(body, c.old, c.new, 1)
		}
		b.WriteString(body + "\n")
	}
	return b.String()
}

// weaveAll returns the texts of all files with mutants, by their paths, and of the
// files that choose.
func weaveAll(mutants []mutant) (map[string][]byte, error) {
	files := map[string][]numbered{}
	for i, m := range mutants {
		files[m.file] = append(files[m.file], numbered{i + 1, m})
	}
	woven := map[string][]byte{}
	var errs error
	for file, ms := range files {
		src, err := os.ReadFile(filepath.Join(root, file))
		if err == nil {
			woven[file], err = weave(file, src, ms)
		}
		errs = errors.Join(errs, err)
		dir := path.Dir(file)
		woven[dir+"/mutant__.go"] = fmt.Appendf(nil, "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutant__, _ = strconv.Atoi(os.Getenv(%q))\n", path.Base(dir), mutantEnv)
	}
	return woven, errs
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
