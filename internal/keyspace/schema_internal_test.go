package keyspace

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestStabilityPageNamesTheSchema makes whoever changes the schema say so on
// docs/stability.md.
func TestStabilityPageNamesTheSchema(t *testing.T) {
	page, err := os.ReadFile("../../docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("under schema %d (", Schema); !strings.Contains(string(page), want) {
		t.Errorf("docs/stability.md does not say %q", want)
	}
}
