package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// source is a Go file that has markers.
type source struct {
	path string // from the module's root, with slashes
	text []byte
	fset *token.FileSet
	tree *ast.File
}

// mark is one marker: a comment that names a mutant.
type mark struct {
	name    string
	src     *source
	comment *ast.Comment
}

// spot is a statement or an expression that begins where a marker points to.
type spot struct{ node, parent ast.Node }

var (
	markerForm = regexp.MustCompile(`^(?://mutant:([a-z0-9-]+)|/\*mutant:([a-z0-9-]+)\*/)$`)
	markerLike = regexp.MustCompile(`^/[/*]\s*mutants?:`)
)

// parse reads a file.
func parse(path string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return &source{path: path, text: text, fset: fset, tree: tree}, err
}

// offset is the place of pos in the file's text.
func (s *source) offset(pos token.Pos) int { return s.fset.Position(pos).Offset }

// of is the text of a node.
func (s *source) of(n ast.Node) string { return string(s.text[s.offset(n.Pos()):s.offset(n.End())]) }

// marks lists the markers of a file.
func (s *source) marks() (found []mark, errs error) {
	for _, group := range s.tree.Comments {
		for _, c := range group.List {
			if form := markerForm.FindStringSubmatch(c.Text); form != nil {
				found = append(found, mark{name: form[1] + form[2], src: s, comment: c})
			} else if markerLike.MatchString(c.Text) {
				errs = errors.Join(errs, fmt.Errorf("%s: %s: a marker is //mutant:name or /*mutant:name*/", s.fset.Position(c.Pos()), c.Text))
			}
		}
	}
	return found, errs
}

// allMarks lists the markers of the module, by name.
func allMarks() (map[string][]mark, error) {
	found := map[string][]mark{}
	var errs error
	walked := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name()[0] == '.' || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("mutant")) {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		src, err := parse(filepath.ToSlash(name), text)
		if err != nil {
			return err
		}
		marks, err := src.marks()
		errs = errors.Join(errs, err)
		for _, m := range marks {
			found[m.name] = append(found[m.name], m)
		}
		return nil
	})
	return found, errors.Join(walked, errs)
}

func (m mark) String() string {
	return fmt.Sprintf("%s (%s)", m.name, m.src.fset.Position(m.comment.Pos()))
}

// spots returns what begins where the marker points to, outermost first, and the
// function around it. At the end of a line that is what begins first on the line;
// elsewhere it is what follows.
func (m mark) spots() (*ast.FuncDecl, []spot, error) {
	at, end := m.src.offset(m.comment.Pos()), m.src.offset(m.comment.End())
	line := bytes.LastIndexByte(m.src.text[:at], '\n') + 1
	from, to := m.follows(end), m.follows(end)+1
	if strings.HasPrefix(m.comment.Text, "//") && len(bytes.TrimSpace(m.src.text[line:at])) > 0 {
		from, to = line, at
	}
	for _, d := range m.src.tree.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil {
			continue
		}
		if found := m.src.beginning(decl.Body, from, to); len(found) > 0 {
			return decl, found, nil
		}
	}
	return nil, nil, fmt.Errorf("%v: no statement or expression of a function begins there", m)
}

// follows is where the code goes on behind comments that begin at an offset.
func (m mark) follows(at int) int {
	for {
		at += len(m.src.text[at:]) - len(bytes.TrimLeft(m.src.text[at:], " \t\n"))
		before := at
		for _, group := range m.src.tree.Comments {
			for _, c := range group.List {
				if m.src.offset(c.Pos()) == at {
					at = m.src.offset(c.End())
				}
			}
		}
		if at == before {
			return at
		}
	}
}

// beginning returns the nodes of a body that begin at the first place, in a part of
// the file, where any does.
func (s *source) beginning(body *ast.BlockStmt, from, to int) (found []spot) {
	ast.PreorderStack(body, nil, func(n ast.Node, stack []ast.Node) bool {
		switch n.(type) {
		case *ast.BlockStmt:
			return true
		case ast.Stmt, ast.Expr:
			at := s.offset(n.Pos())
			first := len(found) == 0 && from <= at && at < to
			if first || len(found) > 0 && found[0].node.Pos() == n.Pos() {
				found = append(found, spot{node: n, parent: stack[len(stack)-1]})
			}
		}
		return true
	})
	return found
}
