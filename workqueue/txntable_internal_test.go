package workqueue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every Txn is built by a method of job.Txns that the table covers, except those of
// a worker's registration, which have a test of their own.
func TestEveryTxnIsInTheTable(t *testing.T) {
	covered := map[string]bool{
		"move":     true, // by close, reclaim and intervene
		"Worker":   true, // TestALostSessionDoesNotRegister
		"closeTxn": true, // only joins what close and joinable made
	}
	for _, tc := range txnCases {
		covered[tc.builders] = true
	}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !buildsTxn(f) && (receiverOf(f) != "txns" || !returnsTxn(f)) {
				continue
			}
			if by := f.Name.Name; !covered[by] && !covered[receiverOf(f)] {
				t.Errorf("%s: the compares of %s have no test", name, by)
			}
		}
	}
}

func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return strings.TrimPrefix(exprString(f.Recv.List[0].Type), "*")
}

func exprString(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + exprString(e.X)
	case *ast.SelectorExpr:
		return exprString(e.X) + "." + e.Sel.Name
	}
	return ""
}

func returnsTxn(f *ast.FuncDecl) bool {
	return f.Type.Results != nil && exprString(f.Type.Results.List[0].Type) == "etcdkv.Txn"
}

// buildsTxn tells whether a function has a literal of a Txn in it.
func buildsTxn(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && exprString(lit.Type) == "etcdkv.Txn" && len(lit.Elts) > 0 {
			found = true
		}
		return true
	})
	return found
}
