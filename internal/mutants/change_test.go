package mutants

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// change is what a mutant does to what its marker marks. Any other text than drop,
// always and never stands there instead, with $ for what is marked: for the value that
// an assignment, a field or a return gives, or a range runs over, where one is marked,
// and else for the whole.
type change string

const (
	// drop takes out a statement, a case of a select, an element of a list, or an
	// operand of && or ||.
	drop change = "drop"
	// always makes a condition true: of an if, a for or a case, or a value.
	always change = "always"
	// never makes it false.
	never change = "never"
	// empty leaves nothing in a slice.
	empty change = "$[:0]"
)

// edit is a piece of a file's text and what stands there instead.
type edit struct {
	from, to int
	text     string
}

// edit returns what the change does to what is marked.
func (c change) edit(src *source, spots []spot) (edit, error) {
	replace := func(n ast.Node, text string) (edit, error) {
		return edit{src.offset(n.Pos()), src.offset(n.End()), text}, nil
	}
	switch c {
	case drop:
		return dropped(src, spots)
	case always, never:
		cond := condition(spots[0].node)
		if cond == nil {
			return edit{}, fmt.Errorf("%s: it has no condition", src.of(spots[0].node))
		}
		if c == always {
			return replace(cond, "(true || ("+src.of(cond)+"))")
		}
		return replace(cond, "(false && ("+src.of(cond)+"))")
	}
	whole := spots[0].node
	if v := value(whole); v != nil {
		whole = v
	}
	if text := strings.ReplaceAll(string(c), "$", src.of(whole)); text != src.of(whole) {
		return replace(whole, text)
	}
	return edit{}, fmt.Errorf("%q changes nothing", c)
}

// condition returns the condition of a statement, or its value.
func condition(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.IfStmt:
		return n.Cond
	case *ast.ForStmt:
		return n.Cond
	case *ast.CaseClause:
		return only(n.List)
	}
	return value(n)
}

// value returns the one expression whose value a statement or a field gives, or the
// expression itself.
func value(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return only(n.Rhs)
	case *ast.ReturnStmt:
		return only(n.Results)
	case *ast.RangeStmt:
		return n.X
	case *ast.KeyValueExpr:
		return n.Value
	case ast.Expr:
		return n
	}
	return nil
}

// only returns the expression of a list that has one.
func only(list []ast.Expr) ast.Expr {
	if len(list) == 1 {
		return list[0]
	}
	return nil
}

// dropped takes out the outermost thing that can be taken out. What a statement or an
// operand uses stays in use, so that the rest compiles.
func dropped(src *source, spots []spot) (edit, error) {
	for _, s := range spots {
		from, to := src.offset(s.node.Pos()), src.offset(s.node.End())
		switch node := s.node.(type) {
		case *ast.CommClause:
			return edit{from, to, ""}, nil
		case *ast.CaseClause:
			continue
		case ast.Stmt:
			return edit{from, to, "if false { " + src.of(node) + " }"}, nil
		case ast.Expr:
			if list := listOf(s.parent); slices.Contains(list, node) {
				return without(src, list, slices.Index(list, node)), nil
			}
			around, ok := s.parent.(*ast.BinaryExpr)
			if inner, logical := node.(*ast.BinaryExpr); !ok || logical && inner.Op == around.Op {
				continue
			}
			switch around.Op {
			case token.LAND:
				return edit{from, to, "(true || (" + src.of(node) + "))"}, nil
			case token.LOR:
				return edit{from, to, "(false && (" + src.of(node) + "))"}, nil
			}
		}
	}
	return edit{}, fmt.Errorf("%s: it is no statement, element or operand", src.of(spots[0].node))
}

// listOf returns the expressions that a node lists.
func listOf(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CompositeLit:
		return n.Elts
	case *ast.CallExpr:
		return n.Args
	case *ast.CaseClause:
		return n.List
	}
	return nil
}

// without takes one expression out of a list, with its comma.
func without(src *source, list []ast.Expr, i int) edit {
	from, to := src.offset(list[i].Pos()), src.offset(list[i].End())
	switch {
	case i+1 < len(list):
		to = src.offset(list[i+1].Pos())
	case i > 0:
		from = src.offset(list[i-1].End())
	default:
		rest := strings.TrimLeft(string(src.text[to:]), " \t\n")
		if strings.HasPrefix(rest, ",") {
			to = len(src.text) - len(rest) + 1
		}
	}
	return edit{from, to, ""}
}
