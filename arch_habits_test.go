package leasekit_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
)

// maxLines bounds the files that people have to read to change something.
const maxLines = 450

// vagueNames say nothing about what a package holds.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc"}

// sizeViolations finds non-test files that should be two files.
func sizeViolations(tree []*source) []string {
	var found []string
	for _, src := range tree {
		if !src.test && src.lines > maxLines {
			found = append(found, fmt.Sprintf("%s has %d lines, limit %d", src.path, src.lines, maxLines))
		}
	}
	return found
}

// nameViolations finds packages whose name or directory is vague.
func nameViolations(tree []*source) []string {
	var found []string
	for _, src := range tree {
		for _, name := range []string{src.file.Name.Name, path.Base(src.dir)} {
			if slices.Contains(vagueNames, name) {
				found = append(found, fmt.Sprintf("%s: package name %q says nothing about its content", src.path, name))
				break
			}
		}
	}
	return found
}

// sleepViolations finds time.Sleep in tests and in the libraries. A test that
// sleeps is slow when it passes and wrong when the machine is busy; a library
// that sleeps cannot be stopped by its ctx. Inside a synctest bubble a sleep
// moves a fake clock, so it is allowed there.
func sleepViolations(tree []*source) []string {
	var found []string
	for _, src := range tree {
		rule, _ := importRule(src.dir)
		if !src.test && !slices.Contains(libraries, rule) {
			continue
		}
		bubbles := synctestBubbles(src)
		for _, pos := range usesOf(src, "time", "Sleep") {
			inBubble := slices.ContainsFunc(bubbles, func(bubble ast.Node) bool {
				return bubble.Pos() <= pos && pos < bubble.End()
			})
			if !inBubble {
				found = append(found, src.at(pos)+": time.Sleep: wait for the event itself")
			}
		}
	}
	return found
}

// synctestBubbles returns the function literals given to synctest.Test.
func synctestBubbles(src *source) []ast.Node {
	var bubbles []ast.Node
	starts := usesOf(src, "testing/synctest", "Test")
	ast.Inspect(src.file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !slices.Contains(starts, call.Fun.Pos()) {
			return true
		}
		for _, arg := range call.Args {
			if literal, ok := arg.(*ast.FuncLit); ok {
				bubbles = append(bubbles, literal)
			}
		}
		return true
	})
	return bubbles
}

// usesOf finds where a file mentions one name of an imported package, called or
// not, under whatever name it imports the package.
func usesOf(src *source, importPath, name string) []token.Pos {
	local := src.localName(importPath)
	if local == "" {
		return nil
	}
	var uses []token.Pos
	ast.Inspect(src.file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := node.X.(*ast.Ident); ok && pkg.Name == local && node.Sel.Name == name {
				uses = append(uses, node.Pos())
			}
		case *ast.Ident:
			if local == "." && node.Name == name {
				uses = append(uses, node.Pos())
			}
		}
		return true
	})
	return uses
}
