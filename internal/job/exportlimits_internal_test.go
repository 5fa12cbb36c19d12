package job

import (
	"strings"
	"testing"
)

// An import takes what enqueue and handlers may leave, and nothing else.
func TestImportValidatesAsEnqueueDoes(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	many := make([]string, 21)
	for i := range many {
		many[i] = `{"attempt":1,"outcome":"failed"}`
	}
	for name, tc := range map[string]struct{ where, members, rest, want string }{
		"kind too long":       {"jobs", `"kind":"` + long + `"`, "", "kind"},
		"kind with NUL":       {"dead", `"kind":"a\u0000"`, "", "kind"},
		"trace too long":      {"jobs", `"trace":{"traceparent":"` + long + `"}`, "", "trace.traceparent"},
		"trace with NUL":      {"jobs", `"trace":{"traceparent":"a\u0000"}`, "", "trace.traceparent"},
		"trace name with NUL": {"done", `"trace":{"a\u0000":"a"}`, "", "trace"},
		"label too long":      {"jobs", `"labels":{"a":"` + long + `"}`, "", "labels.a"},
		"label with NUL":      {"jobs", `"labels":{"a":"\u0000"}`, "", "labels.a"},
		"run at":              {"jobs", `"run_at":"1969-01-01T00:00:00Z"`, "", "run at"},
		"payload":             {"jobs", `"payload":"` + long + long + `"`, "", "payload"},
		"result":              {"done", `"result":"` + long + long + `"`, "", "result"},
		"trail":               {"jobs", `"attempts":[` + strings.Join(many, ",") + `]`, "", "trail"},
		"progress":            {"jobs", `"attempt":1`, `,"progress":{"token":"1","progress":"` + long + `"}`, "progress"},
		"checkpoint":          {"dead", `"attempt":1`, `,"progress":{"token":"1","checkpoint":"` + long + `"}`, "checkpoint"},
	} {
		if _, err := ReadLine(exportedOf(tc.where, `{"v":1,"id":"x","born":"b",`+tc.members+`}`, tc.rest), 256<<10); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A salvaged record may be larger than a payload, and goes out and in again.
	r := Salvaged("x", []byte(long+long), ErrUndecodable, testEvent(VerbBury))
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	record, err := without(b, "w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLine(exportedOf("dead", string(record), ""), 256<<10); err != nil {
		t.Errorf("a salvaged one: %v", err)
	}
}

// A count that no record may have is not imported either.
func TestWrongNumbersAreNotImported(t *testing.T) {
	for _, member := range []string{`"attempt":-1`, `"timeout_ms":9223372036854775807`, `"payload_beside":1073741825`} {
		if _, err := ReadLine(exportedOf(places[InJobs], `{"v":1,"id":"x","born":"b",`+member+`}`, ""), 256<<10); err == nil {
			t.Errorf("%s is imported", member)
		}
	}
}
