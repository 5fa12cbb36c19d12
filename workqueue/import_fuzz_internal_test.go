package workqueue

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/job/jobtest"
)

func exportedOf(where, record, rest string) []byte {
	return []byte(fmt.Sprintf(`{"v":%d,"where":%q,"queue":"q","record":%s%s}`, exportVersion, where, record, rest))
}

// A claimed job that may be started only once was started: wherever it is put back, it
// is not started again.
func TestImportOfAStartedAtMostOnceJob(t *testing.T) {
	for _, once := range []bool{false, true} {
		line := exportedOf(places[job.InJobs], fmt.Sprintf(`{"v":1,"id":"x","born":"b","at_most_once":%t,"attempt":1,"owner":"a.0123456789abcdef","owner_rev":"7"}`, once), "")
		im := &importing{q: &Queue{cfg: Config{}.withDefaults()}}
		if err := im.read(line); err != nil {
			t.Fatal(err)
		}
		if err := im.unclaim(By{Actor: "test"}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]job.Place{false: job.InJobs, true: job.InDead}[once]; im.where != want || im.record.Claimed() || (im.record.Outcome == job.OutcomeDead) != once {
			t.Errorf("at most once %t: in %d with outcome %q and owner %q, want %d", once, im.where, im.record.Outcome, im.record.Owner, want)
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
		im := &importing{q: &Queue{cfg: Config{}.withDefaults()}}
		if im.read(line) != nil {
			return
		}
		started := im.record.Claimed() && im.record.AtMostOnce
		if err := im.unclaim(By{Actor: "test"}); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if im.record.Claimed() || started && im.where == job.InJobs {
			t.Errorf("%q: owner %q, in %d", line, im.record.Owner, im.where)
		}
		im.lease = 1 // for those that are done
		txn, err := jobtest.Txns(t, "/r/").Restore(im.restored(), job.ImportSeen{})
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := job.Decode(txn.Then[0].ValueBytes()); err != nil {
			t.Errorf("%q is put as %q: %v", line, txn.Then[0].ValueBytes(), err)
		}
		if im.note != "" && !json.Valid([]byte(im.note)) {
			t.Errorf("%q: progress is put as %q", line, im.note)
		}
	})
}
