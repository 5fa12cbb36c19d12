package leasectl

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

// orphanAndPause is what the drawn example shows: one error that can be fixed, one warning that cannot.
func (r *doctorRig) orphanAndPause() {
	r.Helper()
	r.put(r.queue("mail").Job("01J9X4"), record("01J9X4", goneOwner))
	r.put(r.queue("reports").Config(), `{"w":"8888888888888888","paused":true,"actor":"ana","reason":"db migration","at":"`+earlier(26*time.Hour)+`"}`)
}

var numbers = regexp.MustCompile(`(token|rev|db|revision) [0-9]+|[0-9a-zA-Z:.-]+Z\b|_seconds [0-9.]+|http://[0-9.:]+`)

func masked(text string) string {
	return numbers.ReplaceAllStringFunc(text, func(s string) string {
		if name, _, ok := strings.Cut(s, " "); ok {
			return name + " N"
		}
		if strings.HasPrefix(s, "http") {
			return "URL"
		}
		return "T"
	})
}

const drawn = `ok    E1 1/1 endpoints healthy     ok  E2 no alarms     ok  E3 db N% of quota     ok  E4 E5 E6 E7 S1 S2 S3 S4 J2 J3 J5 J6 J7 J8 J9 Q1 Q3 Q4 Q5 X1 X2 X3 C1 K1 K2 K3 K4
ERROR J1 1 job claimed by a gone session         mail/01J9X4 token N (no live worker)
WARN  Q2 queue reports paused 26h                by ana: "db migration"      (no automatic fix)
fixed J1 mail/01J9X4 (rev N)                       1 fixed, 1 warning left
`

const drawnPlan = `Plan (guarded by the revisions above):
  1. requeue mail/01J9X4 at front, new token
`

const drawnMarkdown = "# leasectl doctor\n\nRoot `/TestDoctorPrintsAsDrawn/`, revision N, T: 1 error, 1 warning.\n" + `
| level | code | what | subject | detail | status | way out |
|---|---|---|---|---|---|---|
| error | J1 | claimed by a gone session | mail/01J9X4 | mail/01J9X4 token N (no live worker) | open | leasectl doctor --fix: requeue mail/01J9X4 at front, new token |
| warning | Q2 | queue reports paused 26h | queue/reports | by ana: "db migration" | open | leasectl queues resume reports |

| check | status | note |
|---|---|---|
| E1 | ok | 1/1 endpoints healthy |
`

func TestDoctorPrintsAsDrawn(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	r := newDoctorRig(t, etcd.Endpoints())
	r.orphanAndPause()

	text := r.doctor(8)
	for _, want := range [][]string{{"ERROR J1", "run: leasectl doctor --fix"}, {"WARN  Q2", "run: leasectl queues resume reports"}, {"1 error, 1 warning"}} {
		if !hasInOrder(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if got := masked(r.doctor(8, "--format", "md")); !strings.HasPrefix(got, drawnMarkdown) {
		t.Errorf("md:\n%s", got)
	}
	if got, want := r.doctor(2, "--format", "nagios"), "LEASEKIT CRITICAL - 1 error, 1 warning: J1 1 job claimed by a gone session, Q2 queue reports paused 26h | errors=1;;1 warnings=1;1\n"; got != want {
		t.Errorf("nagios: %s", got)
	}
	prom := r.doctor(8, "--format", "prometheus")
	for _, want := range []string{
		"# TYPE leasekit_doctor_findings gauge\n", `leasekit_doctor_findings{code="J1",severity="error"} 1` + "\n", `leasekit_doctor_findings{code="Q2",severity="warning"} 1` + "\n",
		`leasekit_doctor_findings{code="E1",severity="error"} 0` + "\n", `leasekit_doctor_check_done{code="K2"} 1` + "\n", "leasekit_doctor_last_run_timestamp_seconds ",
	} {
		if !strings.Contains(prom, want) {
			t.Errorf("%q is missing in\n%s", want, prom)
		}
	}
	if out := r.doctor(1, "--format", "nagios", "--skip", "j1"); !strings.HasPrefix(out, "LEASEKIT WARNING - 1 warning: Q2") {
		t.Errorf("nagios without J1: %s", out)
	}
	if out := r.doctor(0, "--format", "nagios", "--skip", "J1,Q2"); !strings.HasPrefix(out, "LEASEKIT OK - no problems found") {
		t.Errorf("nagios without J1 and Q2: %s", out)
	}

	out, errOut, code := r.leasectl("doctor", "--window", "100ms", "--fix", "--yes")
	if got := masked(out); code != 0 || got != drawn {
		t.Errorf("exit code %d\n%swant\n%s", code, got, drawn)
	}
	if got := masked(errOut); got != drawnPlan {
		t.Errorf("the plan is\n%s", got)
	}
}

func TestDoctorJSONIsAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	r := newDoctorRig(t, etcd.Endpoints())
	conforms(t, "doctor.json", r.doctor(0, "-o", "json"))
	r.orphanAndPause()
	r.put(r.queue("mail").Job("bad"), "garbage")
	for _, args := range [][]string{{}, {"--skip", "J1"}, {"--format", "json", "--fix", "--dry-run"}, {"--fix", "--yes"}} {
		conforms(t, "doctor.json", r.doctor(-1, append(args, "-o", "json")...))
	}
	out, _, _ := r.leasectl("doctor", "checks", "-o", "json")
	conforms(t, "doctor_checks.json", out)
	r.session("w.0000000000000001", "")
	out, _, _ = r.leasectl("doctor", "--after-restore", "--yes", "-o", "json")
	conforms(t, "doctor_after_restore.json", out)
	out, _, _ = r.leasectl("doctor", "--after-restore", "--yes", "-o", "json")
	conforms(t, "doctor_after_restore.json", out)
}

func conforms(t *testing.T, schema, out string) {
	t.Helper()
	compiled, err := compileSchema(strings.TrimSuffix(schema, ".json"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every check says what it means; what has a fix says what it does.
func TestDoctorChecksListsEachCode(t *testing.T) {
	r := &doctorRig{T: t, endpoints: "127.0.0.1:1", env: map[string]string{}} // it asks nobody
	var list struct{ Items []struct{ Code, Fix string } }
	out, errOut, code := r.leasectlAt("/t/", "doctor", "checks", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		t.Fatal(code, errOut, err)
	}
	fixed := map[string]bool{}
	for _, d := range damages {
		fixed[d.code] = fixed[d.code] || d.fixed
	}
	seen := map[string]bool{}
	for _, c := range list.Items {
		if seen[c.Code] {
			t.Errorf("%s is there twice", c.Code)
		}
		seen[c.Code] = true
		if (c.Fix != "") != fixed[c.Code] {
			t.Errorf("%s: fix %q", c.Code, c.Fix)
		}
	}
	if !seen["J4"] || len(list.Items) != len(doctor.Checks())+len(doctor.LeftOut) {
		t.Errorf("%d codes", len(list.Items))
	}
	if out, _, _ := r.leasectlAt("/t/", "doctor", "checks"); !hasInOrder(out, []string{"CODE", "SEVERITY", "FIX", "MEANS"}) || !hasInOrder(out, []string{"J4", "none", "no", "impossible by design"}) {
		t.Errorf("got\n%s", out)
	}
}

// After a restore every session ends, and everybody starts anew.
func TestDoctorAfterRestoreEndsAllSessions(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	r := newDoctorRig(t, etcd.Endpoints())
	s := r.openSession("alive")
	r.session("w.0000000000000001", "")
	r.put(r.keys.Session("w.0000000000000002"), "{}")
	r.put(r.queue("mail").Job("x"), record("x", ""))

	out, errOut, code := r.leasectl("doctor", "--after-restore")
	if code != 2 || out != "" || !strings.Contains(errOut, "3 sessions") || !strings.Contains(errOut, "needs a confirmation") {
		t.Errorf("without an answer: %d\n%s%s", code, out, errOut)
	}
	out, _, code = r.leasectl("doctor", "--after-restore", "--dry-run")
	if code != 0 || strings.Count(out, "would be ended") != 3 || s.Err() != nil {
		t.Errorf("a dry run: %d\n%s", code, out)
	}
	out, errOut, code = r.leasectl("doctor", "--after-restore", "--yes")
	if code != 0 || strings.Count(out, " ended\n") != 3 {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	select {
	case <-s.Done():
	case <-ctx.Done():
		t.Error("a live process goes on with its session")
	}
	if out, _, code := r.leasectl("doctor", "--after-restore"); code != 0 || out != "" {
		t.Errorf("a second time: %d %s", code, out)
	}
	if !r.exists(r.queue("mail").Job("x")) {
		t.Error("it took a job along")
	}
}
