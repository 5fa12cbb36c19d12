package execjob_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// The child dies with the process that runs it, even when that is killed without a chance to clean up.
func TestChildDiesWithRunner(t *testing.T) {
	path, allGone := fifo(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helperFIFO+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("the child said %q, %v; want ready", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	allGone()
}
