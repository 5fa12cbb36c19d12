package leasekit_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	testName     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
	survivesName = regexp.MustCompile(`^TestSurvives_(\d+)_[A-Z]`)
)

// notTests are what pages say of many tests, or of none.
var notTests = []string{"TestSurvives_", "TestSurvives_NN", "TestMain"}

// testsOf lists the tests, benchmarks, fuzz targets and examples of the tree.
func testsOf(tree []*source) map[string]bool {
	names := map[string]bool{}
	for _, src := range tree {
		if !src.test {
			continue
		}
		for _, decl := range src.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}

// unknownTests reports the tests that documentation names and the tree does not have.
func unknownTests(fsys fs.FS, tests map[string]bool) (violations []string, err error) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, err
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := fs.ReadFile(fsys, page)
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, name := range testName.FindAllString(line, -1) {
				if !tests[name] && !slices.Contains(notTests, name) {
					violations = append(violations, fmt.Sprintf("%s:%d: there is no %s", page, i+1, name))
				}
			}
		}
	}
	return violations, nil
}

// TestDocumentationNamesTestsThatExist keeps the promises of the pages tied to what
// proves them.
func TestDocumentationNamesTestsThatExist(t *testing.T) {
	violations, err := unknownTests(os.DirFS("."), testsOf(wholeTree(t)))
	if err != nil {
		t.Fatal(err)
	}
	report(t, violations)
}

// survived are the numbers of the failures that this project was built against: see
// docs/failure_modes.md.
var survived = []string{
	"01", "02", "03", "04", "05", "07", "08", "10", "11", "13", "14", "15", "16", "17", "18", "19", "20", "21", "23", "25", "26", "27",
	"28", "29", "30", "32", "33", "34", "35", "37", "38", "39", "40", "41", "42", "44", "45", "46", "48", "49", "50", "52", "53", "54",
}

// TestEveryFailureHasItsTest wants a test for each number, no number that is none, and
// each such test on the page.
func TestEveryFailureHasItsTest(t *testing.T) {
	page := readFile(t, "docs/failure_modes.md")
	seen := map[string]bool{}
	for name := range testsOf(wholeTree(t)) {
		if !strings.HasPrefix(name, "TestSurvives_") {
			continue
		}
		m := survivesName.FindStringSubmatch(name)
		if m == nil || !slices.Contains(survived, m[1]) {
			t.Errorf("%s is not named TestSurvives_NN_What, with a number of the list", name)
			continue
		}
		seen[m[1]] = true
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/failure_modes.md does not name %s", name)
		}
	}
	for _, number := range survived {
		if !seen[number] {
			t.Errorf("no test shows that failure %s is survived", number)
		}
	}
}

func TestDocumentedTestsRuleCanFail(t *testing.T) {
	pages := fstest.MapFS{
		"README.md":    {Data: []byte("see `TestThere` and TestSurvives_NN\n")},
		"docs/page.md": {Data: []byte("\n`TestGone`, `TestThere`, Testing, aTestX\n")},
	}
	got, err := unknownTests(pages, map[string]bool{"TestThere": true})
	if want := []string{"docs/page.md:2: there is no TestGone"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
