package history

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// The messages that probes listen to are in the libraries' source, each once: a change
// of their words must change the table.
func TestProbesAreLogged(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{"coord", "workqueue", "election", "internal/etcdkv", "internal/lane", "internal/mirror", "internal/queue"} {
		err := filepath.WalkDir(filepath.Join("..", "..", filepath.FromSlash(dir)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for message := range probeOf {
		logged := 0
		for _, level := range []string{"Debug", "Info", "Warn", "Error"} {
			call := "." + level + "(" + strconv.Quote(message)
			for _, logger := range []string{"log", "Log", "Log()"} {
				logged += strings.Count(source.String(), logger+call)
			}
		}
		if logged != 1 {
			t.Errorf("%q is logged in %d places, want 1", message, logged)
		}
	}
}

func TestCoreHitsProbes(t *testing.T) {
	var r Reached
	log := zap.New(r.Core()).With(zap.Int("x", 1))
	log.Debug("watch")
	log.Debug("watch")
	log.Error("something else")
	log.Warn("session over")
	if got := r.Counts(); got[WatchEnded] != 2 || got[SessionLost] != 1 || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}
