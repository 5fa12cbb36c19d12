package leasectl

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

// What is wrong with members: one down, no majority, none there.
func TestDoctorSeesMembersAndLeaders(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, Members: 3})
	r := newDoctorRig(t, etcd.Endpoints())
	if out := r.doctor(0); !hasInOrder(out, []string{"ok    E1 3/3 endpoints healthy", "E2 no alarms", "E3 db ", "E4 E5"}) {
		t.Errorf("healthy:\n%s", out)
	}
	leader := etcd.Leader()
	var others []*embedetcd.Member
	for _, m := range etcd.Members() {
		if m != leader {
			others = append(others, m)
		}
	}
	others[0].Kill()
	if out := r.doctor(8); !hasInOrder(out, []string{"ERROR E1", "1 of 3 endpoints down", others[0].Endpoint(), "connection refused"}) {
		t.Errorf("one down:\n%s", out)
	}
	// A member that is not among the endpoints may just not be reachable from here.
	one := *r
	one.endpoints = leader.Endpoint()
	if out := one.doctor(0); !hasInOrder(out, []string{"WARN  E1", "1 of 3 endpoints down"}) {
		t.Errorf("one down, seen from the leader:\n%s", out)
	}

	others[1].Kill()
	began := time.Now()
	out := r.doctor(8, "--dial-timeout", "2s")
	if !hasInOrder(out, []string{"ERROR E4", "no leader"}) || !hasInOrder(out, []string{"ERROR E1", "2 of 3"}) || !hasInOrder(out, []string{"J1 not checked: etcd has no leader"}) {
		t.Errorf("no majority:\n%s", out)
	}
	if out := r.doctor(2, "--dial-timeout", "2s", "--format", "nagios"); !strings.HasPrefix(out, "LEASEKIT CRITICAL - ") {
		t.Errorf("nagios, no majority: %s", out)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("no majority: to say so twice took %v, so it waited for a leader until its timeout of a minute", took)
	}

	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	if err := others[0].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := others[1].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	r.doctor(0)

	for _, m := range etcd.Members() {
		m.Kill()
	}
	if out, errOut, code := r.leasectl("doctor", "--dial-timeout", "2s"); code != 6 || out != "" || !strings.Contains(errOut, "connection refused") {
		t.Errorf("nobody there: %d %q %q", code, out, errOut)
	}
	if out := r.doctor(2, "--dial-timeout", "2s", "--format", "nagios"); !strings.HasPrefix(out, "LEASEKIT CRITICAL - connect to etcd") {
		t.Errorf("nagios, nobody there: %s", out)
	}
}

// The database fills up to its quota, and is emptied as the advice says.
func TestDoctorSeesADatabaseThatFillsUp(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, QuotaBackendBytes: 16 << 20, CompactAfter: -1})
	r := newDoctorRig(t, etcd.Endpoints())
	full := false
	for i := 0; !full; i++ {
		_, err := r.client.Put(t.Context(), "/elsewhere", strings.Repeat("x", 256<<10))
		if full = errors.Is(err, rpctypes.ErrNoSpace); err != nil && !full {
			t.Fatal(err)
		}
		if len(only(r.report(-1).Findings, "E3")) > 0 {
			break
		}
		if i > 100 {
			t.Fatal("16 MiB are not full")
		}
	}
	if out := r.doctor(-1); !hasInOrder(out, []string{" E3 db ", "of quota", "in use", "etcdctl compact and defrag"}) {
		t.Errorf("nearly full:\n%s", out)
	}
	for !full {
		_, err := r.client.Put(t.Context(), "/elsewhere", strings.Repeat("x", 256<<10))
		full = errors.Is(err, rpctypes.ErrNoSpace)
	}
	out := r.doctor(8)
	if !hasInOrder(out, []string{"ERROR E2", "alarm NOSPACE", "etcdctl compact, defrag and alarm disarm"}) || !hasInOrder(out, []string{"ERROR E3"}) {
		t.Errorf("full:\n%s", out)
	}
	rev := r.revision()
	if _, err := r.client.Compact(t.Context(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Defragment(t.Context(), r.endpoints); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if rep := r.report(0); len(rep.Findings) > 0 {
		t.Errorf("emptied: %+v", rep.Findings[0])
	}
}

func TestDoctorSeesHistoryThatIsNotCompacted(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, CompactAfter: -1})
	r := newDoctorRig(t, etcd.Endpoints())
	for range 50 {
		r.put("/elsewhere", "x")
	}
	if out := r.doctor(0, "--max-history", "20"); !hasInOrder(out, []string{"WARN  E5", "revisions of history kept", "never compacted", "--auto-compaction-retention"}) {
		t.Errorf("got\n%s", out)
	}
	if _, err := r.client.Compact(t.Context(), r.revision()-25); err != nil {
		t.Fatal(err)
	}
	if out := r.doctor(0, "--max-history", "20"); !hasInOrder(out, []string{"WARN  E5", "25 revisions of history kept", "back to revision"}) {
		t.Errorf("got\n%s", out)
	}
	if _, err := r.client.Compact(t.Context(), r.revision()-10); err != nil {
		t.Fatal(err)
	}
	if out := r.doctor(0, "--max-history", "20"); !hasInOrder(out, []string{"ok", " E5 "}) {
		t.Errorf("got\n%s", out)
	}
}

// With auth on, whoever may read the root sees everything, and others are told what they do not see.
func TestDoctorKnowsWhatItMayNotSee(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	r := newDoctorRig(t, etcd.Endpoints())
	r.put(r.queue("mail").Job("x"), `{"v":1,"id":"x"}`)
	r.put(r.queue("other").Job("x"), `{"v":1,"id":"x"}`)
	root, q := r.keys.Root(), r.queue("mail")
	r.addUser("viewer", clientv3.PermRead, root)
	r.addUser("operator", clientv3.PermReadWrite, root)
	r.addUser("worker", clientv3.PermReadWrite, q.Prefix(), r.keys.Sessions(), r.keys.Lanes())
	r.addUser("stranger", clientv3.PermReadWrite, "/elsewhere/")
	r.addUser("root", clientv3.PermReadWrite)
	if _, err := r.client.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.env["LEASECTL_PASSWORD"] = "secret"

	if out := r.doctor(8, "--user", "viewer"); !hasInOrder(out, []string{"ERROR J2", "2 undecodable records"}) || strings.Contains(out, "not checked") {
		t.Errorf("viewer:\n%s", out)
	}
	if out := r.doctor(4, "--user", "viewer", "--fix", "--yes"); !hasInOrder(out, []string{"ERROR E6", "permission to write is missing", "user viewer"}) || !hasInOrder(out, []string{"FAILED J2", "permission denied"}) {
		t.Errorf("viewer --fix:\n%s", out)
	}
	out := r.doctor(4, "--user", "worker")
	if !hasInOrder(out, []string{"ERROR E6", "permission to read is missing", root}) || !hasInOrder(out, []string{"ERROR J2", "mail/x"}) ||
		strings.Contains(out, "other/x") || !hasInOrder(out, []string{"J3 not checked: no permission to read queues other than mail"}) ||
		!hasInOrder(out, []string{"X3 not checked: no permission to read locks"}) {
		t.Errorf("worker:\n%s", out)
	}
	if out := r.doctor(4, "--user", "stranger"); !hasInOrder(out, []string{"ERROR E6", "user stranger", "run: etcdctl role grant-permission"}) {
		t.Errorf("stranger:\n%s", out)
	}
	if out := r.doctor(3, "--user", "stranger", "--format", "nagios"); !strings.HasPrefix(out, "LEASEKIT UNKNOWN - ") {
		t.Errorf("stranger, nagios: %s", out)
	}
	r.env["LEASECTL_PASSWORD"] = "wrong"
	if _, errOut, code := r.leasectl("doctor", "--user", "viewer"); code != 4 {
		t.Errorf("wrong password: %d %s", code, errOut)
	}
	r.env["LEASECTL_PASSWORD"] = "secret"
	if out := r.doctor(0, "--user", "operator", "--fix", "--yes"); strings.Count(out, "fixed J2") != 2 {
		t.Errorf("operator --fix:\n%s", out)
	}
	if rep := r.report(0, "--user", "root"); len(rep.Findings) > 0 {
		t.Errorf("root: %+v", rep.Findings[0])
	}
}

// addUser makes a user with a role of its own that has a permission on prefixes.
func (r *doctorRig) addUser(name string, perm authpb.Permission_Type, prefixes ...string) {
	r.Helper()
	_, err := r.client.RoleAdd(r.Context(), name)
	for _, p := range prefixes {
		if err == nil {
			_, err = r.client.RoleGrantPermission(r.Context(), name, p, clientv3.GetPrefixRangeEnd(p), clientv3.PermissionType(perm))
		}
	}
	if err == nil {
		_, err = r.client.UserAdd(r.Context(), name, "secret")
	}
	if err == nil {
		_, err = r.client.UserGrantRole(r.Context(), name, name)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// Looking changes nothing, whatever is found and however it is printed.
func TestDoctorOnlyReads(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	var rigs []*doctorRig
	for _, d := range damages {
		if d.code == "S2" || d.code == "X3" {
			continue // those go on by themselves
		}
		r := newDoctorRig(t, etcd.Endpoints())
		keys, err := keyspace.New(r.keys.Root() + strconv.Itoa(len(rigs)) + "/")
		if err != nil {
			t.Fatal(err)
		}
		r.keys = keys
		d.make(r)
		rigs = append(rigs, r)
	}
	before := rigs[0].revision()
	formats := []string{"text", "json", "md", "nagios", "prometheus"}
	for i, r := range rigs {
		r.doctor(-1, "--format", formats[i%len(formats)], "--window", "1ms")
		r.doctor(-1, "--format", formats[i%len(formats)], "--window", "1ms", "--fix", "--dry-run")
		if now := r.revision(); now != before {
			t.Fatalf("%s: revision %d became %d", damages[i].code, before, now)
		}
	}
}

// A whole run with every damage at once: --fix mends what it can, and says what is left.
func TestDoctorMendsManyThingsAtOnce(t *testing.T) {
	t.Parallel()
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	r := newDoctorRig(t, etcd.Endpoints())
	for i := range 300 {
		id := "x" + strings.Repeat("y", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		r.put(r.queue("mail").Job("gone-"+id), record("gone-"+id, goneOwner))
		r.put(r.queue("mail").Job("bad-"+id), "garbage")
		r.put(r.queue("mail").Payload("left-"+id), "x")
	}
	rep := r.report(0, "--fix", "--yes")
	if n := len(only(rep.Findings, "J1")) + len(only(rep.Findings, "J2")) + len(only(rep.Findings, "K2")); rep.FixedN != 900 || n != 900 {
		t.Errorf("%d fixed of %d", rep.FixedN, n)
	}
	rep = r.report(0)
	for _, f := range rep.Findings {
		if f.Code != "Q1" {
			t.Errorf("left: %+v", f)
		}
	}
	if len(rep.Findings) != 1 || rep.Findings[0].Status != doctor.Open {
		t.Errorf("%d findings left", len(rep.Findings))
	}
}
