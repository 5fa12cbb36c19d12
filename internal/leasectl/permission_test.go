package leasectl

import (
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/roles"
)

// A refusal names the least that is missing: the identity of the role that the user has, or the role that he lacks.
func TestARefusalNamesTheLeastThatIsMissing(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	g.wants("operator", 0, "enqueue", "mail", "x", "--id", "one")
	g.wants("operator", 0, "enqueue", "mail", "x", "--id", "two")
	const own = "try: --as node-a, the identity that the user's role is for"
	for _, tt := range []struct{ user, args, says string }{
		{"producer", "enqueue mail x", own},
		{"producer", "enqueue mail x --as node-b", own},
		{"worker", "session open --as node-b", own},
		{"worker", "jobs cancel mail/one --as node-b", own},
		{"producer", "enqueue other x --as node-a", "leasectl auth roles --queue other --as node-a --role producer"},
		{"producer", "enqueue other x --as node-a", "leasectl auth can-i enqueue other --as node-a, which names what is missing, such as read on /leasekit/queues/other/config"},
		{"viewer", "jobs cancel mail/one", "leasectl auth can-i work mail, which names what is missing"},
		{"viewer", "jobs cancel mail/one", "leasectl auth roles --queue mail --role worker"},
		{"viewer", "jobs cancel --queue mail --all --yes", "leasectl auth roles --queue mail --role worker"},
		{"worker", "queues pause queue/mail --as node-a", "leasectl auth roles --queue mail --as node-a --role operator"},
		{"worker", "locks ls --as node-a", "leasectl auth roles --queue QUEUE --as node-a --role viewer"},
		{"producer", "jobs get other/one", "leasectl auth can-i view other, which names what is missing, such as read on /leasekit/; for who may grant it: leasectl auth roles --queue other --role viewer"},
	} {
		code, out, errOut := g.run(tt.user, "", strings.Fields(tt.args)...)
		if code != exit.Auth || out != "" || !strings.Contains(errOut, tt.says) || strings.Contains(errOut, "root prefix") {
			t.Errorf("%s: %s: exit code %d\n%swant %s", tt.user, tt.args, code, errOut, tt.says)
		}
	}
	// The role that a refusal names is enough.
	g.wants("worker", 0, "jobs", "cancel", "mail/one", "--as", "node-a")
	g.wants("worker", 0, "jobs", "requeue", "mail/one", "--as", "node-a")
	g.wants("worker", 0, "jobs", "edit", "mail/one", "--priority", "3", "--as", "node-a")
	g.wants("worker", 0, "jobs", "cancel", "--queue", "mail", "--all", "--yes", "--as", "node-a")
	g.wants("worker", 0, "jobs", "delete", "mail/one", "--yes", "--as", "node-a")
}

// No two roles have one name, whatever roots, queues and identities are called.
func TestEachRoleHasANameOfItsOwn(t *testing.T) {
	names := []string{"a", "a-worker", "b-worker", "worker", "viewer", "a:worker", "a:worker:b", "a%3Aworker", "a b", "a%20b", ";", "b"}
	seen := map[string]string{}
	for _, root := range []string{"/leasekit/", "/tenant2/", "/leasekit:a/", "/leasekit%3Aa/", "leasekit/"} {
		keys, err := keyspace.New(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, queue := range names {
			for _, identity := range append(names, "") {
				for _, role := range roles.For(keys, queue, identity) {
					of := fmt.Sprintf("%q %q %q %q", root, queue, role.Name, identity)
					if role.Name == roles.Viewer || role.Name == roles.Operator {
						of = fmt.Sprintf("%q %q", root, role.Name)
					}
					if other := seen[role.InEtcd]; other != "" && other != of {
						t.Errorf("%s is %s, and %s", role.InEtcd, other, of)
					}
					seen[role.InEtcd] = of
				}
			}
		}
	}
}

// A tenant's roles give nothing of another's, and a role that holds anything else is left alone with all others.
func TestRolesOfOneTenantGiveNothingOfAnother(t *testing.T) {
	t.Parallel()
	r := newDoctorRig(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}).Endpoints())
	apply := func(root string, more ...string) (string, int) {
		_, errOut, code := r.leasectlAt(root, append([]string{"auth", "roles", "--queue", "mail", "--apply", "--yes"}, more...)...)
		return errOut, code
	}
	for _, root := range []string{"/one/", "/two", "/two/"} { // the last are one
		if errOut, code := apply(root); code != 0 {
			t.Fatalf("%s: exit code %d: %s", root, code, errOut)
		}
	}
	list, err := r.client.RoleList(t.Context())
	if err != nil || len(list.Roles) != 10 {
		t.Fatalf("roles %q, %v", list.Roles, err)
	}
	for _, name := range list.Roles {
		role, err := r.client.RoleGet(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range role.Perm {
			if root, _, _ := strings.Cut(strings.TrimPrefix(name, "leasekit:"), ":"); !strings.HasPrefix(string(p.Key), root) {
				t.Errorf("%s has %s", name, p)
			}
		}
	}
	read, write, both := clientv3.PermissionType(clientv3.PermRead), clientv3.PermissionType(clientv3.PermWrite), clientv3.PermissionType(clientv3.PermReadWrite)
	for i, g := range []struct {
		key, end string
		typ      clientv3.PermissionType
	}{
		{"/one/", "/one0", read}, {"/three/", "/three0", both}, {"/three/", "", read}, {"/three/", "/three1", write}, {"/", "\x00", read},
	} {
		root := fmt.Sprintf("/three%d/", i)
		name := "leasekit:" + root + ":viewer"
		if _, err := r.client.RoleAdd(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := r.client.RoleGrantPermission(t.Context(), name, strings.Replace(g.key, "/three/", root, 1), strings.Replace(g.end, "/three", strings.TrimSuffix(root, "/"), 1), g.typ); err != nil {
			t.Fatal(err)
		}
		errOut, code := apply(root)
		if code != exit.Conflict || !strings.Contains(errOut, "role "+name+" holds what a viewer does not need: "+strings.ToLower(map[clientv3.PermissionType]string{read: "read", write: "write", both: "readwrite"}[g.typ])+" on ") {
			t.Errorf("%+v: exit code %d: %s", g, code, errOut)
		}
		if _, err := r.client.RoleGet(t.Context(), "leasekit:"+root+":operator"); err == nil {
			t.Errorf("%+v: the others were made", g)
		}
	}
	// What holds less than it should is extended.
	if _, err := r.client.RoleAdd(t.Context(), "leasekit:/four/:operator"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.RoleGrantPermission(t.Context(), "leasekit:/four/:operator", "/four/", clientv3.GetPrefixRangeEnd("/four/"), read); err != nil {
		t.Fatal(err)
	}
	if errOut, code := apply("/four/"); code != 0 {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if role, err := r.client.RoleGet(t.Context(), "leasekit:/four/:operator"); err != nil || len(role.Perm) != 1 || role.Perm[0].PermType.String() != "READWRITE" {
		t.Errorf("%v, %v", role, err)
	}
}
