package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/coord"
)

// What the libraries tell comes in words. That etcd gives no answer is told by one, not by each who misses it.
func TestWorkPutsWhatTheLibrariesTellIntoWords(t *testing.T) {
	var out bytes.Buffer
	log := (&workLog{w: &out}).zap()
	log.Info("not worth a line")
	log.Warn("open session", zap.Error(fmt.Errorf("grant lease: %w", context.DeadlineExceeded)))
	log.Warn("list", zap.String("prefix", "/r/"), zap.Error(status.Error(codes.Unavailable, "connection refused")))
	log.Warn("give up leadership", zap.Error(fmt.Errorf("release: %w: %w", coord.ErrUnknown, errors.New("x"))))
	log.Warn("claim", zap.Error(context.Canceled))
	log.Warn("session over", zap.Error(errors.New("x")))
	log.With(zap.String("queue", "mail")).Warn("release stray claim", zap.String("job", "a"), zap.Error(status.Error(codes.PermissionDenied, "etcdserver: permission denied")))
	log.Error("orphan was not claimed again", zap.Int("losses", 3), zap.Bool("dead", true))
	for range 3 {
		log.Warn("assign jobs", zap.Int("of", 7))
	}
	want := `^\d\d:\d\d:\d\d warning: mail/a: release stray claim: etcdserver: permission denied
\d\d:\d\d:\d\d warning: orphan was not claimed again \(losses 3, dead\)
\d\d:\d\d:\d\d warning: assign jobs \(of 7\)
$`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
