package workqueue

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/job"
)

// TestStabilityPageNamesTheVersions makes whoever adds a version say on docs/stability.md
// what older programs do with it.
func TestStabilityPageNamesTheVersions(t *testing.T) {
	page, err := os.ReadFile("../docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("versions %d and %d (`\"v\"`)", job.VersionPlain, job.RecordVersion),
		fmt.Sprintf("| lines of `leasectl export` | version %d ", job.LineVersion),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/stability.md does not say %q", want)
		}
	}
}
