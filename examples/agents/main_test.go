package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/workqueue"
)

// asAgent makes the test binary the agent itself.
const asAgent = "AGENT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// An agent that is killed in the middle leaves its task to the other, which goes on behind what is done.
func TestTwoAgentsAndOneTask(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	etcd, err := etcdtest.Start(ctx, etcdtest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	q, err := workqueue.Open(ctx, client, workqueue.Config{Queue: "tasks", Root: "/agents/"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Enqueue(ctx, workqueue.Params{ID: "report"}); err != nil {
		t.Fatal(err)
	}
	start := func(name, hang string) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.CommandContext(ctx, os.Args[0], name, "tasks")
		cmd.Env = append(os.Environ(), asAgent+"=1", "AGENT_HANG="+hang, "LEASECTL_ROOT=/agents/", "LEASECTL_ENDPOINTS="+strings.Join(etcd.Endpoints(), ","))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewScanner(out)
	}
	ana, said := start("ana", "3")
	if !said.Scan() || said.Text() != "ana hangs in step 3" {
		t.Errorf("ana said %q", said.Text())
	}
	bob, said := start("bob", "")
	if err := ana.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ana.Wait()
	if !said.Scan() || said.Text() != "bob did 1:ana 2:ana 3:bob" {
		t.Errorf("bob said %q", said.Text())
	}
	if err := bob.Wait(); err != nil {
		t.Error(err)
	}
	j, err := q.Wait(ctx, "report")
	if err != nil || string(j.Result) != "1:ana 2:ana 3:bob" || j.Attempt != 2 {
		t.Errorf("the task became %+v, %v", j, err)
	}
}
