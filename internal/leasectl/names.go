package leasectl

import (
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// refName is the name of a thing as -o name prints it, such as queue/mail: one word, which the verbs of the noun take back.
func refName(noun, name string) string { return noun + "/" + escape.Name(name, "") }

// nameCell is a name in a table: itself, or, where that is not one word or is read as something else, as -o name prints
// it. In both forms it can be typed as it stands there.
func nameCell(noun, name string) string {
	if escape.Name(name, "") == name && !strings.HasPrefix(name, noun+"/") && !strings.HasPrefix(name, "-") {
		return name
	}
	return refName(noun, name)
}

// wordCell is a text in a table or behind its noun that no verb reads as a reference, such as a kind, or a session's ID,
// which is escaped by itself: one word, in which a percent sign is left alone.
func wordCell(text string) string { return strings.ReplaceAll(escape.Name(text, ""), "%25", "%") }
