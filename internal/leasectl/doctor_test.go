package leasectl

import (
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

// Each damage is seen, with its code and exit code, mended as far as that is possible, and seen clean.
func TestDoctorSeesAndMendsEachDamage(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	for _, d := range damages {
		t.Run(d.code+" "+d.name, func(t *testing.T) {
			t.Parallel()
			r := newDoctorRig(t, etcd.Endpoints())
			d.make(r)
			text := r.doctor(d.exit, d.args...)
			if !hasInOrder(text, d.says) {
				t.Errorf("got\n%swant %q", text, d.says)
			}
			found := only(r.report(d.exit, d.args...).Findings, d.code)
			if len(found) == 0 {
				t.Fatalf("not in JSON")
			}
			for _, f := range found {
				if (f.Plan != "") != d.fixed || d.mend != nil && f.Advice == "" {
					t.Errorf("plan %q, advice %q", f.Plan, f.Advice)
				}
			}
			r.doctor(0, append(d.args, "--skip", everyCode())...)
			if d.fixed {
				r.fix(d)
			} else {
				if out := r.doctor(d.exit, append(d.args, "--fix", "--yes")...); !hasInOrder(out, d.says[:1]) {
					t.Errorf("--fix says\n%s", out)
				}
				d.mend(r)
			}
			if left := only(r.report(0, d.args...).Findings, d.code); len(left) > 0 {
				t.Errorf("still there: %+v", left[0])
			}
			if d.then != nil {
				d.then(r)
			}
		})
	}
}

// fix looks at the plan, and applies it.
func (r *doctorRig) fix(d damage) {
	r.Helper()
	before := r.revision()
	dry := r.report(d.exit, append(d.args, "--fix", "--dry-run")...)
	if f := only(dry.Findings, d.code); f[0].Status != doctor.Open || f[0].Plan == "" {
		r.Errorf("the plan says %+v", f[0])
	}
	if out, errOut, code := r.leasectl(append([]string{"doctor", "--window", "100ms", "--fix"}, d.args...)...); code != 2 || !strings.Contains(errOut, "needs a confirmation") {
		r.Errorf("without an answer: %d\n%s%s", code, out, errOut)
	}
	if now := r.revision(); now != before && !sharedRevision {
		r.Error("a plan has changed something")
	}
	out := r.doctor(0, append(d.args, "--fix", "--yes", "--reason", "test")...)
	if !strings.Contains(out, "fixed "+d.code+" ") || !strings.Contains(out, " fixed") {
		r.Errorf("--fix says\n%s", out)
	}
}

func (r *doctorRig) revision() int64 {
	r.Helper()
	resp, err := r.client.Get(r.Context(), "x")
	if err != nil {
		r.Fatal(err)
	}
	return resp.Header.Revision
}

func only(found []*doctor.Finding, code string) (some []*doctor.Finding) {
	for _, f := range found {
		if f.Code == code {
			some = append(some, f)
		}
	}
	return some
}

func everyCode() string {
	var codes []string
	for _, c := range doctor.Checks() {
		codes = append(codes, c.Code)
	}
	return strings.Join(codes, ",")
}

// hasInOrder tells whether some line has all parts, in this order.
func hasInOrder(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		ok := true
		for _, part := range parts {
			var found bool
			if _, line, found = strings.Cut(line, part); !found {
				ok = false
				break
			}
		}
		if ok {
			return true
		}
	}
	return false
}

func earlier(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339Nano) }
