package leasekit_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// documented are the packages whose every exported name has a doc comment.
var documented = []string{"coord", "election", "workqueue", "admin", "integration/etcdtest"}

// surfaceLimits bounds the exported top-level names of a package, without
// methods and fields. A small surface is a promise that can be kept.
var surfaceLimits = map[string]int{"coord": 26, "election": 13, "workqueue": 60}

// memberLimits bounds the exported methods and fields that the types have which users
// meet first.
var memberLimits = map[string]int{"coord.Session": 12, "workqueue.Queue": 20}

// exportedName is one exported name of a package and whether it is documented.
type exportedName struct {
	name       string
	at         string
	topLevel   bool
	documented bool
}

// surface lists what a package exports: top-level names, the exported methods
// of exported types, and the exported fields and methods inside exported
// structs and interfaces.
func surface(files []*source) []exportedName {
	var names []exportedName
	for _, src := range files {
		for _, decl := range src.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				names = append(names, funcSurface(src, decl)...)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					names = append(names, specSurface(src, decl, spec)...)
				}
			}
		}
	}
	return names
}

func funcSurface(src *source, decl *ast.FuncDecl) []exportedName {
	name, topLevel := decl.Name.Name, decl.Recv == nil
	if !topLevel {
		receiver := receiverName(decl.Recv)
		if !ast.IsExported(receiver) {
			return nil
		}
		name = receiver + "." + name
	}
	if !decl.Name.IsExported() {
		return nil
	}
	return []exportedName{{name, src.at(decl.Pos()), topLevel, hasText(decl.Doc)}}
}

func specSurface(src *source, decl *ast.GenDecl, spec ast.Spec) []exportedName {
	var names []exportedName
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		ok := hasText(spec.Doc) || decl.Lparen == token.NoPos && hasText(decl.Doc)
		names = append(names, exportedName{spec.Name.Name, src.at(spec.Pos()), true, ok})
		names = append(names, memberSurface(src, spec)...)
	case *ast.ValueSpec:
		// One comment may introduce a group of constants or variables.
		ok := hasText(spec.Doc) || hasText(spec.Comment) || hasText(decl.Doc)
		for _, ident := range spec.Names {
			if ident.IsExported() {
				names = append(names, exportedName{ident.Name, src.at(ident.Pos()), true, ok})
			}
		}
	}
	return names
}

// memberSurface lists the fields or methods written inside a type.
func memberSurface(src *source, spec *ast.TypeSpec) []exportedName {
	var members *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		members = typ.Fields
	case *ast.InterfaceType:
		members = typ.Methods
	default:
		return nil
	}
	var names []exportedName
	for _, member := range members.List {
		ok := hasText(member.Doc) || hasText(member.Comment)
		for _, ident := range member.Names {
			if ident.IsExported() {
				names = append(names, exportedName{spec.Name.Name + "." + ident.Name, src.at(ident.Pos()), false, ok})
			}
		}
	}
	return names
}

func receiverName(receiver *ast.FieldList) string {
	expr := receiver.List[0].Type
	for {
		switch typ := expr.(type) {
		case *ast.StarExpr:
			expr = typ.X
		case *ast.ParenExpr:
			expr = typ.X
		case *ast.IndexExpr:
			expr = typ.X
		case *ast.IndexListExpr:
			expr = typ.X
		case *ast.Ident:
			return typ.Name
		default:
			return ""
		}
	}
}

// hasText reports a comment that says something: directives do not count.
func hasText(doc *ast.CommentGroup) bool { return doc.Text() != "" }

// docViolations demands a package comment and a comment on every exported name.
func docViolations(dir string, files []*source) []string {
	if len(files) == 0 {
		return nil
	}
	var found []string
	if !slices.ContainsFunc(files, func(src *source) bool { return hasText(src.file.Doc) }) {
		found = append(found, dir+": no package comment")
	}
	for _, name := range surface(files) {
		if !name.documented {
			found = append(found, fmt.Sprintf("%s: %s has no doc comment", name.at, name.name))
		}
	}
	return found
}

// surfaceViolations counts the exported top-level names against the limit.
func surfaceViolations(dir string, files []*source, limit int) []string {
	return overLimit(dir, "top-level names", files, limit, func(n exportedName) bool { return n.topLevel })
}

// memberViolations counts the exported methods and fields of a type against the limit.
func memberViolations(dir, typ string, files []*source, limit int) []string {
	return overLimit(dir+"."+typ, "methods and fields", files, limit, func(n exportedName) bool {
		return !n.topLevel && strings.HasPrefix(n.name, typ+".")
	})
}

func overLimit(whose, what string, files []*source, limit int, counts func(exportedName) bool) []string {
	count := 0
	for _, name := range surface(files) {
		if counts(name) {
			count++
		}
	}
	if count <= limit {
		return nil
	}
	return []string{fmt.Sprintf("%s exports %d %s, limit %d", whose, count, what, limit)}
}
