package leasekit_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// modulePath is the import path that go.mod gives to the tree.
const modulePath = "github.com/leasekit/leasekit"

// source is one parsed Go file of the tree. Paths are slash-separated and
// relative to the module root; the root itself is ".".
type source struct {
	path  string
	dir   string
	test  bool
	lines int
	fset  *token.FileSet
	file  *ast.File
}

// at names a place in the file the way the compiler does.
func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

// imports yields the import specs of the file with their unquoted paths.
func (s *source) imports(yield func(*ast.ImportSpec, string) bool) {
	for _, spec := range s.file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err == nil && !yield(spec, importPath) {
			return
		}
	}
}

// localName is the name under which the file imports importPath, or "" when it
// does not import it. A dot import is ".".
func (s *source) localName(importPath string) string {
	for spec, imported := range s.imports {
		if imported != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// loadTree parses every Go file below the root of fsys, tests and other build
// targets included, nested modules too: the import rules hold for them as well.
func loadTree(fsys fs.FS) ([]*source, error) {
	var tree []*source
	fset := token.NewFileSet()
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && ignoredDir(entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := parseSource(fsys, fset, name)
		if err != nil {
			return err
		}
		tree = append(tree, src)
		return nil
	})
	return tree, err
}

// ignoredDir reports the directories that the go command ignores as well.
func ignoredDir(base string) bool {
	return base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")
}

func parseSource(fsys fs.FS, fset *token.FileSet, name string) (*source, error) {
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &source{
		path:  name,
		dir:   path.Dir(name),
		test:  strings.HasSuffix(name, "_test.go"),
		lines: bytes.Count(content, []byte("\n")),
		fset:  fset,
		file:  file,
	}, nil
}

// inDir selects the non-test files of one package directory.
func inDir(tree []*source, dir string) []*source {
	var files []*source
	for _, src := range tree {
		if src.dir == dir && !src.test {
			files = append(files, src)
		}
	}
	return files
}
