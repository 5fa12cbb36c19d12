package faults_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/leasekit/leasekit/integration/faults"
)

func TestFreeze(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	env := newStage(t, shared(t)).Env
	env.Processes = []faults.Process{e}
	e.send(t, "before")
	e.expect(t, "before")
	heal := inject(t, faults.Freeze{}, env)
	e.send(t, "meanwhile")
	for ctx := bounded(t); ; { // its threads stop one after the other
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.cmd.Process.Pid))
		if err != nil || bytes.Contains(stat, []byte(") T ")) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the process is not stopped: %s", stat)
		}
	}
	mend(t, heal)
	e.expect(t, "meanwhile")
}
