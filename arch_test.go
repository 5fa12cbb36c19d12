package leasekit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The tests in this file hold the tree to its own rules; arch_selftest_test.go
// proves that each rule can fail. A package that does not exist yet breaks no
// rule.

func TestImportsFollowTheRules(t *testing.T) {
	report(t, importViolations(wholeTree(t)))
}

func TestLibrariesLinkOnlyWhatTheEtcdClientNeeds(t *testing.T) {
	tree := wholeTree(t)
	baseline := goList(t, "-deps", "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3/etcdserverpb",
		"google.golang.org/grpc", "go.uber.org/zap")
	for _, library := range libraries {
		if len(inDir(tree, library)) > 0 {
			report(t, depViolations(library, goList(t, "-deps", "./"+library+"/..."), baseline))
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	tree := wholeTree(t)
	for _, dir := range documented {
		report(t, docViolations(dir, inDir(tree, dir)))
	}
}

func TestPublicSurfaceStaysSmall(t *testing.T) {
	tree := wholeTree(t)
	for _, dir := range slices.Sorted(maps.Keys(surfaceLimits)) {
		report(t, surfaceViolations(dir, inDir(tree, dir), surfaceLimits[dir]))
	}
	for _, name := range slices.Sorted(maps.Keys(memberLimits)) {
		dir, typ, _ := strings.Cut(name, ".")
		report(t, memberViolations(dir, typ, inDir(tree, dir), memberLimits[name]))
	}
}

func TestNothingSleepsToWait(t *testing.T) {
	report(t, sleepViolations(wholeTree(t)))
}

func TestFilesStayShort(t *testing.T) {
	report(t, sizeViolations(wholeTree(t)))
}

func TestPackageNamesSaySomething(t *testing.T) {
	report(t, nameViolations(wholeTree(t)))
}

func TestOnlyOnePackageWritesToEtcd(t *testing.T) {
	tree := wholeTree(t)
	for _, dir := range writers {
		files, err := forThisPlatform(inDir(tree, dir))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			continue
		}
		imports := exportImporter(files[0].fset, goList(t, exportArgs(files)...))
		found, err := rawWriteViolations(dir, files, imports)
		if err != nil {
			t.Error(err)
		}
		report(t, found)
	}
}

// TestReadmeCommands keeps the promise of the first page: two commands, and CI
// runs the second one under the race detector.
func TestReadmeCommands(t *testing.T) {
	readme, script := readFile(t, "README.md"), readFile(t, ".ci/run")
	top := strings.Join(strings.SplitN(readme, "\n", 21)[:20], "\n")
	for _, command := range []string{"go run ./cmd/leasectl demo", "go test ./..."} {
		if !strings.Contains(top, command) {
			t.Errorf("README.md does not show %q in its first 20 lines", command)
		}
	}
	if !strings.Contains(script, "\ngo test -race -p 1 -timeout 20m ./...\n") {
		t.Error(".ci/run does not run the README's test command under -race")
	}
}

func wholeTree(t *testing.T) []*source {
	t.Helper()
	tree, err := loadTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func report(t *testing.T, violations []string) {
	t.Helper()
	for _, violation := range violations {
		t.Error(violation)
	}
}

// exportArgs are the `go list` arguments for the export data of all that the
// files import. The files themselves are checked from source.
func exportArgs(files []*source) []string {
	imported := map[string]bool{}
	for _, src := range files {
		for _, importPath := range src.imports {
			imported[importPath] = true
		}
	}
	delete(imported, "unsafe")
	return append([]string{"-export", "-deps"}, slices.Sorted(maps.Keys(imported))...)
}

// goList asks the go command about packages. It tolerates broken ones, which
// come without what could not be found out.
func goList(t *testing.T, args ...string) []listedPackage {
	t.Helper()
	args = append([]string{"list", "-e", "-json=ImportPath,Export,Standard,Module"}, args...)
	command := exec.CommandContext(t.Context(), "go", args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	var listed []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var pkg listedPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return listed
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		listed = append(listed, pkg)
	}
}
