// Package examples_test tries what README.md shows.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, etcdtest.Config{}) }

var program = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// TestSixtySecondsInGo runs the program of README.md as it stands there, but for the
// address of etcd: it prints a job's result and ends.
func TestSixtySecondsInGo(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := program.FindStringSubmatch(string(readme))
	if found == nil {
		t.Fatal("README.md has no program in Go")
	}
	for _, call := range []string{"workqueue.EnqueueJSON(", "workqueue.HandleJSON(", "workqueue.WaitJSON["} {
		if !strings.Contains(found[1], call) {
			t.Errorf("the program does not call %s", call)
		}
	}
	endpoint := strings.TrimPrefix(etcdtest.Shared(t).Endpoints()[0], "http://")
	source := strings.Replace(found[1], "127.0.0.1:2379", endpoint, 1)
	if source == found[1] {
		t.Fatal("the program does not name 127.0.0.1:2379")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	said := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(said) != 2 || !strings.HasPrefix(said[0], "resizing https://example.org/cat.png under token ") || said[1] != "made cat-small.png" {
		t.Errorf("got %v and\n%s", err, out)
	}
}
