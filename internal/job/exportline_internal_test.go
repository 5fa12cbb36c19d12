package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func exportedOf(where, record, rest string) []byte {
	return []byte(fmt.Sprintf(`{"v":%d,"where":%q,"queue":"q","record":%s%s}`, LineVersion, where, record, rest))
}

// A claimed job that may be started only once was started: wherever it is put back, it
// is not started again.
func TestImportOfAStartedAtMostOnceJob(t *testing.T) {
	for _, once := range []bool{false, true} {
		line := exportedOf(places[InJobs], fmt.Sprintf(`{"v":1,"id":"x","born":"b","at_most_once":%t,"attempt":1,"owner":"a.0123456789abcdef","owner_rev":"7"}`, once), "")
		im, err := ReadLine(line, 256<<10)
		if err != nil {
			t.Fatal(err)
		}
		if err := im.Unclaim(By{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]Place{false: InJobs, true: InDead}[once]; im.Where != want || im.Record.Claimed() || (im.Record.Outcome == OutcomeDead) != once {
			t.Errorf("at most once %t: in %d with outcome %q and owner %q, want %d", once, im.Where, im.Record.Outcome, im.Record.Owner, want)
		}
	}
}

// Any line is either refused with a reason or put back as a job that can be read, has
// no owner, and is over exactly where jobs are over.
func FuzzImportLine(f *testing.F) {
	for _, where := range places {
		for _, record := range []string{
			`{"v":1,"id":"x","born":"b"}`, `{"v":1,"id":"x","born":"b","at_most_once":true,"owner":"a.0123456789abcdef","owner_rev":"7"}`, `{}`, `null`, `{"w":"00000000000000aa","v":1,"id":"x","born":"b"}`,
			`{"v":1,"id":"x\u0000","born":"b"}`, `{"v":1,"id":"x","born":"b","future":[1],"Attempt":-1}`, `{"v":9,"id":"x","born":"b"}`, `{"v":1,"id":"x","born":"b","payload_beside":3}`,
		} {
			f.Add(exportedOf(where, record, ""))
			f.Add(exportedOf(where, record, `,"payload":"eHh4","progress":{"token":"1","checkpoint":1}`))
		}
	}
	for _, line := range []string{"", "null", "{", `{"v":99}`, `[]`, strings.Repeat("[", 20_000), "\xff", `{"v":1,"where":"elsewhere","record":{}}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		im, err := ReadLine(line, 256<<10)
		if err != nil {
			return
		}
		started := im.Record.Claimed() && im.Record.AtMostOnce
		if err := im.Unclaim(By{Actor: "test"}); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if im.Record.Claimed() || started && im.Where == InJobs {
			t.Errorf("%q: owner %q, in %d", line, im.Record.Owner, im.Where)
		}
		txn, err := testTxns(t, "/r/").Restore(im.Restored(1), ImportSeen{})
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := Decode(txn.Then[0].ValueBytes()); err != nil {
			t.Errorf("%q is put as %q: %v", line, txn.Then[0].ValueBytes(), err)
		}
		if im.Note != "" && !json.Valid([]byte(im.Note)) {
			t.Errorf("%q: progress is put as %q", line, im.Note)
		}
	})
}
