package faults_test

import (
	"testing"

	"github.com/leasekit/leasekit/integration/faults"
)

func TestKill(t *testing.T) {
	t.Parallel()
	e := newEcho(t)
	env := newStage(t, shared(t)).Env
	wantNotHere(t, faults.Kill{}, env)
	env.Processes = []faults.Process{e}
	first := e.cmd
	heal := inject(t, faults.Kill{}, env)
	wantNotHere(t, faults.Freeze{}, env) // it is dead and borrowed
	mend(t, heal)
	if e.cmd == first || first.ProcessState.String() != "signal: killed" {
		t.Errorf("the process ended as %v", first.ProcessState)
	}
	e.send(t, "hello")
	e.expect(t, "hello")
}
