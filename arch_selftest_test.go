package leasekit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Each test in this file gives one rule a small made-up tree and says which
// files must be reported. Every rule is shown both ways: something it refuses
// and the nearest thing that it lets pass.

func TestImportRulesCanFail(t *testing.T) {
	const own = modulePath + "/"
	tests := []struct {
		file, imports string
		refused       bool
	}{
		{"coord/lock.go", "context", false},
		{"coord/lock.go", own + "coord/internal/seam", false},
		{"coord/lock.go", own + "election", true},
		{"coord/lock.go", own + "internal/faultproxy", true},
		{"coord/lock_test.go", own + "integration/etcdtest", false},
		{"coord/lock.go", "go.etcd.io/etcd/client/v3", false},
		{"coord/lock.go", "go.etcd.io/etcd/client/v3/concurrency", true},
		{"coord/lock.go", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes", false},
		{"coord/lock.go", "go.etcd.io/etcd/server/v3/embed", true},
		{"coord/lock.go", "go.uber.org/zap", false},
		{"coord/lock.go", "go.uber.org/zap/zapcore", false},
		{"coord/lock.go", "google.golang.org/grpc/codes", false},
		{"coord/internal/seam/seam.go", "github.com/spf13/cobra", true},
		{"election/term.go", own + "coord", false},
		{"election/term.go", own + "workqueue", true},
		{"workqueue/lead.go", own + "election", false},
		{"workqueue/worker.go", own + "coord", false},
		{"workqueue/worker.go", own + "election", true},
		{"workqueue/worker.go", "github.com/spf13/cobra", true},
		{"cmd/leasectl/main.go", own + "internal/leasectl", false},
		{"cmd/leasectl/main.go", own + "coord", true},
		{"internal/leasectl/demo.go", own + "workqueue", false},
		{"internal/leasectl/demo.go", own + "internal/leasectl/output", false},
		{"internal/leasectl/demo.go", "github.com/spf13/cobra", false},
		{"internal/leasectl/demo.go", own + "integration/etcdtest", true},
		{"internal/embedetcd/server.go", "go.etcd.io/etcd/server/v3/embed", false},
		{"internal/embedetcd/server.go", own + "coord", true},
		{"internal/faultproxy/proxy.go", "net", false},
		{"internal/faultproxy/proxy.go", own + "internal/embedetcd", true},
		{"integration/etcdtest/server.go", own + "internal/faultproxy", false},
		{"integration/etcdtest/server.go", own + "coord", true},
		{"examples/agent/main.go", own + "coord", false},
		{"examples/agent/main.go", own + "internal/embedetcd", true},
		{"examples/agent/main_test.go", own + "internal/embedetcd", true},
		{"newplace/new.go", "fmt", true},
		{"doc.go", own + "coord", true},
	}
	for _, test := range tests {
		tree := treeOf(t, map[string]string{test.file: fmt.Sprintf("package p\nimport _ %q\n", test.imports)})
		got := importViolations(tree)
		if (len(got) > 0) != test.refused {
			t.Errorf("%s imports %s: got %q, want refused = %t", test.file, test.imports, got, test.refused)
		}
	}
}

func TestDependencyRuleCanFail(t *testing.T) {
	module := func(name string) *struct{ Path string } { return &struct{ Path string }{name} }
	baseline := []listedPackage{{ImportPath: "google.golang.org/protobuf/proto", Module: module("google.golang.org/protobuf")}}
	tests := []struct {
		dep     listedPackage
		refused bool
	}{
		{listedPackage{ImportPath: "net/http", Standard: true}, false},
		{listedPackage{ImportPath: modulePath + "/coord", Module: module(modulePath)}, false},
		{listedPackage{ImportPath: "google.golang.org/protobuf/encoding/protojson", Module: module("google.golang.org/protobuf")}, false},
		{listedPackage{ImportPath: "github.com/stretchr/testify/require", Module: module("github.com/stretchr/testify")}, true},
		{listedPackage{ImportPath: "go.etcd.io/etcd/server/v3/embed", Module: module("google.golang.org/protobuf")}, true},
		{listedPackage{ImportPath: "github.com/spf13/cobra", Module: module("google.golang.org/protobuf")}, true},
		{listedPackage{ImportPath: modulePath + "/internal/doctor", Module: module(modulePath)}, true},
		{listedPackage{ImportPath: modulePath + "/integration/etcdtest", Module: module(modulePath)}, true},
	}
	for _, test := range tests {
		got := depViolations("coord", []listedPackage{test.dep}, baseline)
		if (len(got) > 0) != test.refused {
			t.Errorf("coord links %s: got %q, want refused = %t", test.dep.ImportPath, got, test.refused)
		}
	}
}

func TestDocumentationRuleCanFail(t *testing.T) {
	const documentedSource = `// Package coord is documented.
package coord

// A is documented.
const A = 1

// Errors are introduced together.
var (
	ErrB = 1
	ErrC = 2
)

// T is documented.
type T struct {
	// F is documented.
	F int
	G int // G is documented at the end of the line.
	h int
	hidden
}

// M is documented.
func (t *T) M() {}
func (t *T) quiet() {}

type hidden struct{ X int }

func (hidden) Exported() {}
`
	if got := docViolations("coord", inDir(treeOf(t, map[string]string{"coord/a.go": documentedSource}), "coord")); len(got) > 0 {
		t.Errorf("documented source: got %q, want nothing", got)
	}

	const header = "// Package coord is documented.\npackage coord\n"
	tests := map[string]string{
		"package comment": "package coord\n",
		"Func has":        header + "func Func() {}",
		"Type has":        header + "type Type int",
		"InGroup has":     header + "// Types are not introduced together.\ntype (\n InGroup int\n)",
		"Const has":       header + "const Const = 1",
		"ErrVar has":      header + "var x, ErrVar = 1, 2",
		"T.Method has":    header + "// T is documented.\ntype T[K any] struct{}\nfunc (t *T[K]) Method() {}",
		"T.Field has":     header + "// T is documented.\ntype T struct { Field int }",
		"I.Do has":        header + "// I is documented.\ntype I interface { Do() }",
		"Directive has":   header + "//go:noinline\nfunc Directive() {}",
	}
	for want, source := range tests {
		got := docViolations("coord", inDir(treeOf(t, map[string]string{"coord/a.go": source}), "coord"))
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q, want one report of %q", source, got, want)
		}
	}
}

func TestSurfaceRuleCanFail(t *testing.T) {
	files := inDir(treeOf(t, map[string]string{
		"coord/a.go":      "package coord\ntype A struct { F, G int }\nfunc (A) M() {}\nfunc B() {}\nfunc c() {}",
		"coord/b.go":      "package coord\nconst ( D = 1; e = 2 )\nvar F, G int",
		"coord/c_test.go": "package coord\nfunc TestNotCounted() {}",
	}), "coord")
	if got := surfaceViolations("coord", files, 5); len(got) > 0 {
		t.Errorf("5 names, limit 5: got %q, want nothing", got)
	}
	if got := surfaceViolations("coord", files, 4); len(got) != 1 {
		t.Errorf("5 names, limit 4: got %q, want one report", got)
	}
}

func TestSleepRuleCanFail(t *testing.T) {
	const bubble = `package p
import ("testing"; "testing/synctest"; "time")
func TestX(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour) })
	%s
}`
	tests := []struct {
		file, source string
		refused      bool
	}{
		{"coord/a_test.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", true},
		{"coord/a_test.go", "package p\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }", true},
		{"coord/a_test.go", "package p\nimport . \"time\"\nfunc f() { Sleep(1) }", true},
		{"coord/a_test.go", "package p\nimport \"time\"\nvar wait = time.Sleep", true},
		{"coord/a_test.go", "package p\nimport \"time\"\nconst text = `time.Sleep(1)`\nvar d = time.Second", false},
		{"coord/a_test.go", fmt.Sprintf(bubble, ""), false},
		{"coord/a_test.go", fmt.Sprintf(bubble, "time.Sleep(1)"), true},
		{"workqueue/a.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", true},
		{"internal/leasectl/demo.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", false},
	}
	for _, test := range tests {
		got := sleepViolations(treeOf(t, map[string]string{test.file: test.source}))
		if (len(got) > 0) != test.refused {
			t.Errorf("%s with %s: got %q, want refused = %t", test.file, test.source, got, test.refused)
		}
	}
}

func TestSizeRuleCanFail(t *testing.T) {
	longest := "package p\n" + strings.Repeat("\n", maxLines-1)
	tree := treeOf(t, map[string]string{"a.go": longest, "b.go": longest + "\n", "b_test.go": longest + "\n"})
	if got := sizeViolations(tree); len(got) != 1 || !strings.HasPrefix(got[0], "b.go has") {
		t.Errorf("got %q, want one report of b.go", got)
	}
}

func TestNameRuleCanFail(t *testing.T) {
	tree := treeOf(t, map[string]string{
		"coord/a.go":           "package utils",
		"internal/common/a.go": "package words",
		"internal/lanes/a.go":  "package lanes",
	})
	if got := nameViolations(tree); len(got) != 2 {
		t.Errorf("got %q, want reports of coord/a.go and internal/common/a.go", got)
	}
}

func TestWriteRuleCanFail(t *testing.T) {
	const header = `package workqueue
import (
	"context"
	"sync"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
)
var (
	ctx    context.Context
	client *clientv3.Client
	raw    etcdserverpb.KVClient
	pool   sync.Pool
	inside struct{ *clientv3.Client }
)
`
	tests := map[string]string{
		"client.Put(ctx, `k`, `v`)":                           "Put",
		"client.KV.Delete(ctx, `k`)":                          "Delete",
		"inside.Txn(ctx)":                                     "Txn",
		"clientv3.NewKV(client).Do(ctx, clientv3.OpGet(`k`))": "Do",
		"put := client.Put; _ = put":                          "Put",
		"_ = clientv3.KV.Put":                                 "Put",
		"raw.DeleteRange(ctx, nil)":                           "DeleteRange",
		"pool.Put(1)":                                         "",
		"_ = clientv3.OpPut(`k`, `v`)":                        "",
		"client.Get(ctx, `k`)":                                "",
	}
	files := func(body string) []*source {
		return treeOf(t, map[string]string{"workqueue/a.go": header + "func f() { " + body + " }"})
	}
	listed := goList(t, exportArgs(files(""))...)
	for body, want := range tests {
		sources := files(body)
		got, err := rawWriteViolations("workqueue", sources, exportImporter(sources[0].fset, listed))
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		switch {
		case want == "" && len(got) > 0:
			t.Errorf("%s: got %q, want nothing", body, got)
		case want != "" && (len(got) != 1 || !strings.Contains(got[0], ")."+want+":")):
			t.Errorf("%s: got %q, want one report of %s", body, got, want)
		}
	}
	if _, err := rawWriteViolations("workqueue", files("undefined()"), exportImporter(files("")[0].fset, listed)); err == nil {
		t.Error("a package that does not type-check must be an error, not a pass")
	}
}

// TestTreeSkipsWhatGoSkips also shows that an empty tree breaks no rule.
func TestTreeSkipsWhatGoSkips(t *testing.T) {
	tree := treeOf(t, map[string]string{
		"testdata/a.go": "package a", "_old/a.go": "package a", ".ci/a.go": "package a", "coord/testdata/x/a.go": "package a",
		"README.md": "no Go",
	})
	if len(tree) > 0 {
		t.Errorf("loaded %d files, want none", len(tree))
	}
	found := slices.Concat(importViolations(tree), docViolations("coord", nil), surfaceViolations("coord", nil, 40))
	if len(found) > 0 {
		t.Errorf("empty tree: got %q, want nothing", found)
	}
	if _, err := loadTree(fstest.MapFS{"a.go": {Data: []byte("not Go")}}); err == nil {
		t.Error("a file that does not parse must be an error, not a pass")
	}
}

func treeOf(t *testing.T, files map[string]string) []*source {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	tree, err := loadTree(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
