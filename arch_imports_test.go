package leasekit_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// mayImport says, for each package of the toolkit, which other packages of the
// toolkit its non-test files may import. A directory without an entry follows
// its nearest parent's; packages may always import what lies below themselves.
// A new top-level place needs a line here: where it belongs is a decision.
var mayImport = map[string][]string{
	".": {},

	// The machinery, from the ground up. What is above a line knows nothing of it.
	"internal/fault":    {},
	"internal/claims":   {},
	"internal/keyspace": {"internal/fault"},
	"internal/etcdkv":   {"internal/fault", "internal/keyspace"},
	"internal/lane":     {"internal/fault", "internal/keyspace", "internal/etcdkv", "internal/claims"},
	"internal/mirror":   {"internal/fault", "internal/keyspace", "internal/etcdkv"},
	"internal/line":     {"internal/fault", "internal/keyspace", "internal/etcdkv", "internal/lane", "internal/claims"},
	"internal/leftover": {"internal/fault", "internal/keyspace", "internal/etcdkv", "internal/lane"},
	"internal/inside":   {"internal/etcdkv", "internal/lane", "internal/claims"},
	"internal/usercode": {},
	"internal/job":      {"internal/fault", "internal/keyspace", "internal/etcdkv"},
	"internal/ready":    {"internal/keyspace", "internal/mirror", "internal/job"},
	"internal/queue":    {"internal/fault", "internal/keyspace", "internal/etcdkv", "internal/lane", "internal/mirror", "internal/job", "internal/ready"},

	// What users import.
	"coord":     slices.Concat(machinery, []string{"internal/line", "internal/inside"}),
	"election":  {"coord", "internal/keyspace", "internal/etcdkv", "internal/lane", "internal/line", "internal/inside", "internal/usercode"},
	"workqueue": slices.Concat(machinery, []string{"coord", "internal/mirror", "internal/job", "internal/ready", "internal/queue", "internal/inside", "internal/usercode"}),

	"admin": slices.Concat(machinery, []string{"coord", "workqueue", "internal/job", "internal/queue", "internal/usercode"}),

	"cmd/leasectl":      {"internal/leasectl"},
	"internal/leasectl": {"workqueue", "admin", "internal/escape", "internal/roles", "internal/etcdkv", "internal/line", "internal/doctor", "internal/simulate"},
	"internal/escape":   {},
	"internal/roles":    {"internal/keyspace", "internal/escape"},
	"internal/doctor":   slices.Concat(machinery, []string{"coord", "workqueue", "admin", "internal/job", "internal/line", "internal/leftover", "internal/escape", "internal/roles"}),

	// Of leasectl, what all its nouns share, from the ground up.
	inLeasectl + "execjob":  {},
	inLeasectl + "child":    {},
	inLeasectl + "contexts": {},
	inLeasectl + "exit":     {"coord", "workqueue", "internal/escape", inLeasectl + "execjob"},
	inLeasectl + "output":   {"internal/escape", inLeasectl + "exit"},
	inLeasectl + "filter":   {"workqueue", inLeasectl + "exit"},
	inLeasectl + "connect":  {"coord", "workqueue", "internal/keyspace", "internal/etcdkv", "internal/escape", inLeasectl + "contexts", inLeasectl + "exit", inLeasectl + "output"},
	inLeasectl + "cli":      slices.Concat(nounOf("contexts"), []string{"internal/roles"}),
	inLeasectl + "look":     slices.Concat(nounOf(), []string{"internal/job", "internal/doctor"}),

	// Its nouns. One knows another only where it shows or does what belongs to that.
	inLeasectl + "auth":     slices.Concat(nounOf(), []string{"internal/roles"}),
	inLeasectl + "config":   nounOf("contexts"),
	inLeasectl + "sessions": slices.Concat(nounOf("look"), []string{"internal/leftover"}),
	inLeasectl + "claims":   slices.Concat(nounOf("sessions", "execjob"), []string{"election", "internal/line", "internal/inside"}),
	inLeasectl + "events":   slices.Concat(nounOf("look"), []string{"internal/job"}),
	inLeasectl + "jobs":     slices.Concat(nounOf("filter", "look", "sessions", "events"), []string{"internal/job"}),
	inLeasectl + "queues":   nounOf("filter", "look", "jobs"),
	inLeasectl + "workers":  slices.Concat(nounOf("filter", "look", "jobs"), []string{"internal/leftover"}),
	inLeasectl + "work":     slices.Concat(nounOf("jobs", "execjob"), []string{"internal/line"}),
	inLeasectl + "status":   nounOf("look", "claims"),
	inLeasectl + "doctor":   slices.Concat(nounOf(), []string{"internal/doctor"}),
	inLeasectl + "dump":     nounOf(),
	inLeasectl + "top":      {"internal/escape", "internal/simulate/report"},
	inLeasectl + "desk":     nounOf("contexts", "filter", "look", "events", "jobs", "top"),
	inLeasectl + "bench":    {"workqueue", "internal/keyspace", inLeasectl + "child"},
	inLeasectl + "demo":     {"workqueue", "admin", "internal/keyspace", "internal/embedetcd", inLeasectl + "child"},
	inLeasectl + "local":    slices.Concat(nounOf("bench", "demo", "child"), []string{"internal/simulate", "internal/embedetcd"}),
	inLeasectl + "clitest":  {"internal/embedetcd"},

	"internal/simulate": {"coord", "election", "workqueue", "admin", "internal/keyspace", "internal/embedetcd", "internal/faultproxy"},

	// Stand-ins and harnesses, for tests.
	"internal/embedetcd":   {},
	"internal/faultproxy":  {},
	"internal/explore":     {},
	"internal/memetcd":     {},
	"internal/mutants":     {},
	"internal/stubetcd":    {"internal/keyspace", "internal/etcdkv"},
	"internal/faultkv":     {"internal/keyspace", "internal/etcdkv", "integration/etcdtest"},
	"integration":          {"coord", "election", "workqueue", "admin", "internal/keyspace", "integration/etcdtest"},
	"integration/etcdtest": {"internal/embedetcd", "internal/faultproxy"},
	"integration/history":  {"coord", "election", "workqueue", "admin", "internal/keyspace"},
	"examples":             {"coord", "election", "workqueue", "admin", "integration/etcdtest"},
}

// machinery is what all that claims is made of.
var machinery = []string{"internal/fault", "internal/claims", "internal/keyspace", "internal/etcdkv", "internal/lane"}

const inLeasectl = "internal/leasectl/"

// nounOf is what a noun of leasectl may import: the libraries, what all nouns share, and those packages of leasectl.
func nounOf(more ...string) []string {
	all := slices.Concat(machinery, []string{"coord", "workqueue", "admin", "internal/escape"})
	for _, name := range slices.Concat([]string{"exit", "output", "connect", "cli"}, more) {
		all = append(all, inLeasectl+name)
	}
	return all
}

// fileMayImport holds the exceptions that one file of a package has.
var fileMayImport = map[string][]string{
	// Dispatch mode needs an elected leader; nothing else in workqueue does.
	"workqueue/lead.go": {"election"},
}

// libraries are the packages that users link into their own programs, so what
// they pull in is what every user pays for.
var libraries = []string{"coord", "election", "workqueue", "admin"}

// libraryImports are the third-party packages that a library may import by
// itself. "/..." admits the packages below as well.
var libraryImports = []string{
	"go.etcd.io/etcd/client/v3",
	"go.etcd.io/etcd/api/v3/...",
	"google.golang.org/grpc/...",
	"go.uber.org/zap/...",
}

// libraryInternals are the libraries' own machinery.
var libraryInternals = []string{
	modulePath + "/internal/fault", modulePath + "/internal/claims", modulePath + "/internal/keyspace", modulePath + "/internal/etcdkv",
	modulePath + "/internal/lane", modulePath + "/internal/mirror", modulePath + "/internal/line", modulePath + "/internal/job", modulePath + "/internal/ready", modulePath + "/internal/queue", modulePath + "/internal/inside", modulePath + "/internal/usercode",
}

// forbiddenDeps must not even be reached through others by a library.
var forbiddenDeps = []string{
	"go.etcd.io/etcd/server/...",
	"github.com/spf13/cobra/...",
	modulePath + "/internal/...", // but for what libraryInternals lists
	modulePath + "/cmd/...",
	modulePath + "/integration/...",
}

// importViolations applies the import rules to every file. Test files are free,
// except in examples, which show what somebody outside the module can write.
func importViolations(tree []*source) []string {
	var found []string
	for _, src := range tree {
		if src.test && !isBelow(src.dir, "examples") {
			continue
		}
		rule, ok := importRule(src.dir)
		if !ok {
			found = append(found, fmt.Sprintf("%s: package %s has no import rule: add it to mayImport", src.path, src.dir))
			continue
		}
		allowed := slices.Concat(mayImport[rule], fileMayImport[src.path])
		for spec, importPath := range src.imports {
			if why := refuseImport(rule, allowed, importPath); why != "" {
				found = append(found, fmt.Sprintf("%s: imports %s: %s", src.at(spec.Pos()), importPath, why))
			}
		}
	}
	return found
}

// importRule finds the entry of mayImport that governs a directory.
func importRule(dir string) (string, bool) {
	for rule := dir; ; rule = path.Dir(rule) {
		if _, ok := mayImport[rule]; ok {
			// The root's rule is for the root alone: it is everybody's parent.
			return rule, rule != "." || dir == "."
		}
		if rule == "." {
			return "", false
		}
	}
}

// refuseImport tells why a package under rule may not import importPath, or "".
func refuseImport(rule string, allowed []string, importPath string) string {
	if importPath == modulePath || strings.HasPrefix(importPath, modulePath+"/") {
		ours := strings.TrimPrefix(strings.TrimPrefix(importPath, modulePath), "/")
		if slices.Contains(allowed, ours) || isBelow(ours, rule) {
			return ""
		}
		return rule + " may import of ours only " + fmt.Sprint(allowed)
	}
	if isStandard(importPath) {
		return ""
	}
	if slices.Contains(libraries, rule) && !matchesAny(libraryImports, importPath) {
		return "a library may import of others only " + fmt.Sprint(libraryImports)
	}
	return ""
}

// listedPackage is the part of a `go list -json` answer that the rules need.
type listedPackage struct {
	ImportPath string
	Export     string
	Standard   bool
	Module     *struct{ Path string }
}

// depViolations judges all that a library links, directly or through others.
// baseline is what the admitted imports link by themselves.
func depViolations(library string, deps, baseline []listedPackage) []string {
	admitted := map[string]bool{modulePath: true}
	for _, pkg := range baseline {
		if pkg.Module != nil {
			admitted[pkg.Module.Path] = true
		}
	}
	var found []string
	for _, pkg := range deps {
		switch {
		case slices.Contains(libraryInternals, pkg.ImportPath):
		case matchesAny(forbiddenDeps, pkg.ImportPath):
			found = append(found, fmt.Sprintf("%s links %s, which no library may", library, pkg.ImportPath))
		case pkg.Standard || pkg.Module == nil || admitted[pkg.Module.Path]:
		default:
			found = append(found, fmt.Sprintf("%s links %s of module %s, which its admitted imports do not need",
				library, pkg.ImportPath, pkg.Module.Path))
		}
	}
	return found
}

func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func isBelow(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

func matchesAny(patterns []string, importPath string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
			return isBelow(importPath, parent)
		}
		return importPath == pattern
	})
}
