package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var pagePath = filepath.Join(root, "docs", "mutants.md")

const pageHead = `# What is taken out, and which test notices

Each row is a check that safety, or a promise, depends on. It is taken out of the code, or turned round, and the tests
named are run: one of them must fail, and all of them pass with the check in place. ` + "`make mutants`" + ` runs all rows and
writes this page; the table is in internal/mutants, and a comment ` + "`//mutant:name`" + ` in the code marks what each row takes out.

Compares of Txns appear here by one or two of each builder. That every single one of them is needed is shown apart, by
taking each out of each builder in turn: ` + "`TestEveryCompareOfEveryTxnClosesARace`, `TestEveryCompareOfEveryClaimTxnClosesARace`," + `
` + "`TestEveryCompareOfALeftoverClosesARace` and `TestEachCompareOfAFenceIsNeeded`" + ` against the server,
` + "`TestExploreMissesEveryCompare`, `TestExploreMissesEveryCompareOfClaims` and `TestExploreMissesTheLaneCompare`" + ` by search. So is
whoever must end a claim: ` + "`TestExploreMissesEveryKeeper` and `TestExploreMissesEveryKeeperOfClaims`" + `.

| taken out | marker | what came of it |
|---|---|---|
`

var row = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^|`]+)` \\| ([^|]+) \\|$")

// rowsOf reads a page: what came of each mutant.
func rowsOf(page string) map[string]string {
	rows := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[2]
	}
	return rows
}

// readPage returns the page as it is, or nothing.
func readPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(pagePath)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(page)
}

// writePage writes the page anew, with what came of some mutants; the other rows stay
// as they are.
func writePage(t *testing.T, verdicts map[string]string) {
	t.Helper()
	rows := rowsOf(readPage(t))
	for name, verdict := range verdicts {
		rows[name] = strings.ReplaceAll(verdict, "|", ", ")
	}
	var b strings.Builder
	b.WriteString(pageHead)
	for _, m := range table {
		verdict := rows[m.at]
		if verdict == "" {
			verdict = "not run yet"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.what, m.at, verdict)
	}
	if err := os.WriteFile(pagePath, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
