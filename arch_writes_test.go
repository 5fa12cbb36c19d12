package leasekit_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"slices"
)

// rawWriteMethods are the methods of the etcd client, and of the gRPC client
// below it, by which a write could reach etcd. Only internal/etcdkv may use them, and
// only internal/lane and what needs no lane commit by it: so a lost answer can be
// resolved. Building a clientv3.Op is not a write.
var rawWriteMethods = map[string][]string{
	"go.etcd.io/etcd/client/v3":           {"Put", "Delete", "Txn", "Do", "Compact"},
	"go.etcd.io/etcd/api/v3/etcdserverpb": {"Put", "DeleteRange", "Txn", "Compact"},
}

// writers are the packages that write, all through internal/etcdkv.
var writers = []string{
	"coord", "election", "workqueue", "internal/claims", "internal/lane", "internal/mirror", "internal/line", "internal/leftover",
}

// rawWriteViolations type-checks the files of one package and finds where it
// mentions a writing method of the etcd client. Types are needed because Put
// and Delete are also methods of sync.Pool and sync.Map, and because a client
// may be embedded in another struct.
func rawWriteViolations(dir string, files []*source, imports types.Importer) ([]string, error) {
	if len(files) == 0 {
		return nil, nil
	}
	var parsed []*ast.File
	for _, src := range files {
		parsed = append(parsed, src.file)
	}
	var problems []error
	config := types.Config{Importer: imports, Error: func(err error) { problems = append(problems, err) }}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// Check returns only the first of the problems collected by Error.
	_, _ = config.Check(modulePath+"/"+dir, files[0].fset, parsed, info)
	if len(problems) > 0 {
		return nil, fmt.Errorf("type-check %s: %w", dir, errors.Join(problems...))
	}

	var found []string
	for ident, object := range info.Uses {
		function, ok := object.(*types.Func)
		if !ok || function.Pkg() == nil || isOfOp(function) {
			continue
		}
		if slices.Contains(rawWriteMethods[function.Pkg().Path()], function.Name()) {
			found = append(found, fmt.Sprintf("%s: uses %s: only internal/etcdkv writes to etcd",
				files[0].fset.Position(ident.Pos()), function.FullName()))
		}
	}
	slices.Sort(found)
	return found, nil
}

// isOfOp tells a method of clientv3.Op, which takes an operation apart, from one that sends.
func isOfOp(function *types.Func) bool {
	receiver := function.Signature().Recv()
	if receiver == nil {
		return false
	}
	named, ok := receiver.Type().(*types.Named)
	return ok && named.Obj().Name() == "Op"
}

// forThisPlatform keeps the files that the go command would compile here.
func forThisPlatform(files []*source) ([]*source, error) {
	var kept []*source
	for _, src := range files {
		match, err := build.Default.MatchFile(src.dir, path.Base(src.path))
		if err != nil {
			return nil, err
		}
		if match {
			kept = append(kept, src)
		}
	}
	return kept, nil
}

// exportImporter imports packages from the export data files that
// `go list -export` names.
func exportImporter(fset *token.FileSet, listed []listedPackage) types.Importer {
	exports := map[string]string{}
	for _, pkg := range listed {
		exports[pkg.ImportPath] = pkg.Export
	}
	return importer.ForCompiler(fset, "gc", func(importPath string) (io.ReadCloser, error) {
		file := exports[importPath]
		if file == "" {
			return nil, fmt.Errorf("no export data for %s: does it compile?", importPath)
		}
		return os.Open(file)
	})
}
