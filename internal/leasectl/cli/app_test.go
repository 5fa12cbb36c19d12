package cli

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

func TestErrorIsOneLine(t *testing.T) {
	var out bytes.Buffer
	a := &App{Err: &out, Getenv: func(string) string { return "" }}
	a.PrintError(fmt.Errorf("enqueue: %w\nmore", status.Error(codes.DeadlineExceeded, "context deadline exceeded")))
	want := "leasectl: enqueue: no answer in time; more; try: " + exit.TryWait + "\n"
	if got := out.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
