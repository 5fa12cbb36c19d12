package report_test

import (
	"os"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/simulate/report"
)

func render(t *testing.T, p report.Page) string {
	t.Helper()
	var out strings.Builder
	if err := report.Render(&out, p); err != nil {
		t.Fatalf("Render: %v", err)
	}
	return out.String()
}

func TestWriteTmp(t *testing.T) {
	os.WriteFile("/tmp/rep.html", []byte(render(t, examplePage(1))), 0o644)
}
