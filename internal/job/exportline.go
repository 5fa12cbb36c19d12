package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/keyspace"
)

// LineVersion is the version of the format of one exported line.
const LineVersion = 1

// line is a job outside of etcd: everything that it is, and nothing that only
// means something in the cluster that it came from.
type line struct {
	Version int    `json:"v"`
	Queue   string `json:"queue"`
	Where   string `json:"where"` // jobs, done or dead
	// Record has no head nonce and no place among jobs of one revision: both are given
	// anew. The lines of live jobs stand in the queue's order instead.
	Record json.RawMessage `json:"record"`
	// Payload is one that lies beside its record.
	Payload []byte `json:"payload_beside_base64,omitempty"`
	// Progress has neither head nonce nor token.
	Progress json.RawMessage `json:"progress,omitempty"`
}

// ExportLine writes a job of a queue as one out.
func ExportLine(queue string, l Snapshot, b Beside) ([]byte, error) {
	r := *l.Record
	r.Seq = 0
	value, err := r.Encode()
	if err != nil {
		return nil, err
	}
	out := line{Version: LineVersion, Queue: queue, Where: places[l.Where]}
	if out.Record, err = without(value, "w"); err != nil {
		return nil, err
	}
	if r.Beside > 0 && l.Where != InDone {
		out.Payload = b.Payload
	}
	if r.Attempt > 0 && json.Valid(b.Progress) {
		if out.Progress, err = without(b.Progress, "w", "token"); err != nil {
			return nil, fmt.Errorf("its progress: %w", err)
		}
	}
	return EncodeJSON(out)
}

// places are the names of the directories in a out.
var places = map[Place]string{InJobs: "jobs", InDone: "done", InDead: "dead"}

// without returns a JSON object without some members. The others keep their bytes
// and their order.
func without(object []byte, names ...string) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	for _, name := range names {
		delete(all, name)
	}
	return EncodeJSON(all) // by name: the same job always gives the same line
}

// Imported is a job as a line says it, to be put back.
type Imported struct {
	Record  *Record
	Where   Place
	Payload []byte // beside the record
	Note    string // its progress, with a fresh head nonce
}

// ReadLine takes a line apart, and refuses what could never have been exported; maxPayload
// is in bytes.
func ReadLine(text []byte, maxPayload int) (*Imported, error) {
	im := &Imported{}
	if err := im.read(text, maxPayload); err != nil {
		return nil, err
	}
	return im, nil
}

// Restored is what an import writes; a done job hangs on the lease.
func (im *Imported) Restored(lease clientv3.LeaseID) Restored {
	return Restored{im.Record, im.Where, string(im.Payload), im.Note, lease}
}

// Unclaim takes the owner out, who is not here: the job is open, or dead where it may
// be started only once.
func (im *Imported) Unclaim(by By) error {
	if !im.Record.Claimed() {
		return nil
	}
	e := Event{Verb: VerbBreak, Now: time.Now(), Nonce: keyspace.NewNonce(), By: by} //mutant:import-at-most-once
	n, err := Transition(im.Record, InJobs, e)
	if err != nil {
		return err
	}
	im.Record, im.Where = n.Record, n.Where
	return nil
}

// read takes a line apart and checks it.
func (im *Imported) read(text []byte, maxPayload int) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("it is no exported job: %w", err)
	}
	known := false
	for where, name := range places {
		if name == l.Where {
			im.Where, known = where, true
		}
	}
	switch {
	case l.Version > LineVersion:
		return fmt.Errorf("it has version %d, this program knows %d: use a newer one", l.Version, LineVersion)
	case l.Version < 1 || !known || len(l.Record) < 2 || l.Record[0] != '{':
		return errors.New("it is no exported job")
	}
	value := append([]byte(`{"w":"`+keyspace.NewNonce()+`",`), l.Record[1:]...)
	var err error
	if im.Record, err = Decode(value); err != nil {
		return err
	}
	im.Payload = l.Payload
	return im.check(l.Progress, maxPayload)
}

// check refuses what could never have been exported.
func (im *Imported) check(progress []byte, maxPayload int) error {
	r := im.Record
	if err := keyspace.ValidateName("id", r.ID); err != nil {
		return err
	}
	switch {
	case r.Born == "":
		return errors.New("its record has no born")
	case r.Claimed() && im.Where != InJobs:
		return errors.New("it is over and claimed at once")
	case im.Where != InDone && r.Beside != len(im.Payload):
		return fmt.Errorf("its payload has %d bytes, its record says %d", len(im.Payload), r.Beside)
	case len(r.Attempts) > LogLimit:
		return fmt.Errorf("its trail has %d entries, at most %d are kept", len(r.Attempts), LogLimit)
	}
	if err := im.checkLimits(maxPayload); err != nil {
		return err
	}
	if len(progress) == 0 {
		return nil
	}
	var n Note
	if err := json.Unmarshal(progress, &n); err != nil {
		return fmt.Errorf("its progress cannot be read: %w", err)
	}
	if err := errors.Join(CheckSize("progress", len(n.ProgressBytes()), MaxProgress), CheckSize("checkpoint", len(n.CheckpointBytes()), MaxProgress)); err != nil {
		return err
	}
	n.Nonce = keyspace.NewNonce()
	b, err := EncodeJSON(n)
	im.Note = string(b)
	return err
}

// checkLimits refuses what no enqueue and no handler may leave.
func (im *Imported) checkLimits(limit int) error {
	payload := im.Payload
	if im.Record.Beside == 0 {
		payload = im.Record.PayloadBytes()
	}
	if im.Where == InDead {
		limit = max(limit, MaxSalvage)
	}
	if err := im.Record.Description(payload).Validate(limit); err != nil {
		return err
	}
	return CheckSize("result", len(im.Record.ResultBytes()), MaxResult)
}
