package leasectl

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestErrorIsOneLine(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out, getenv: func(string) string { return "" }}
	a.printError(fmt.Errorf("enqueue: %w\nmore", status.Error(codes.DeadlineExceeded, "context deadline exceeded")))
	want := "leasectl: enqueue: no answer in time; more; try: " + tryWait + "\n"
	if got := out.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
