package escape

import (
	"strings"
)

// Ref is the name of a thing as -o name prints it, such as queue/mail: one word, which the verbs of the noun take back.
func Ref(noun, name string) string { return noun + "/" + Name(name, "") }

// NameCell is a name in a table: itself, or, where that is not one word or is read as something else, as -o name prints
// it. In both forms it can be typed as it stands there.
func NameCell(noun, name string) string {
	if Name(name, "") == name && !strings.HasPrefix(name, noun+"/") && !strings.HasPrefix(name, "-") {
		return name
	}
	return Ref(noun, name)
}

// WordCell is a text in a table or behind its noun that no verb reads as a reference, such as a kind, or a session's ID,
// which is escaped by itself: one word, in which a percent sign is left alone.
func WordCell(text string) string { return strings.ReplaceAll(Name(text, ""), "%25", "%") }
