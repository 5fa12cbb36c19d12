package escape_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/leasekit/leasekit/internal/escape"
)

// nasty are names that terminals, shells, tables and readers take for something else.
var nasty = []string{
	"a\x1b[31mb", "a\x07b", "a\u009bb", "a\nb", "a\r\nb", "a\tb", "a\u2028b", "a\u2029b", "a\u0085b", "a\u202eb", "a\u200bb", "a\ufeffb", "a\U000e0041b",
	"a\xffb", "\xc3", "a\u00a0b", "a\u3000b", "a\ufe0fb", "a\u3164b", "a\u00adb", "a\x7fb", "a\x00b",
	"a b", " ", "", "'", `"`, `\`, "`", "a;touch INJ;b", "$(touch INJ)", "`touch INJ`", "a|b", "a&b", "a>b", "*", "?", "[a]", "{a,b}", "~", "#a", "!a", "-rf", "=",
	"100%", "%20", "%", "%2", "%zz", "a/b", "/", "a'; touch INJ; '\x01", "\\'; touch INJ; \\'\x01", "日本語", "ü", "a\ufffdb", "x\n",
}

func obeyed(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

func TestTextIsOneLineThatIsNotObeyed(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 日本": "plain ü 日本", "a\x1b[31mb": `a\x1b[31mb`, "a\nb\tc\u2028d": "a b c d", "a\u009bb": `a\x9bb`, "a\u0085b": `a\x85b`,
		"zw\u200bid": `zw\u200bid`, "a\u202eb": `a\u202eb`, "a\U000e0041b": `a\U000e0041b`, "a\xffb": `a\xffb`, "a\ufffdb": "a\ufffdb", "x\xc3": `x\xc3`,
	} {
		if got := escape.Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for _, in := range nasty {
		for what, got := range map[string]string{"Text": escape.Text(in), "Markdown": escape.Markdown(in), "Shell": escape.Shell(in), "Name": escape.Name(in, "")} {
			if strings.ContainsFunc(got, obeyed) || !utf8.ValidString(got) {
				t.Errorf("%s of %q is %q", what, in, got)
			}
		}
	}
}

func TestBlockKeepsItsLines(t *testing.T) {
	got := escape.Block("Traceback:\r\n\tline \x1b1\n\n  last\n\n")
	if want := []string{"Traceback:", `    line \x1b1`, "", "  last"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJSONMeansTheSame(t *testing.T) {
	for _, in := range nasty {
		encoded, err := json.MarshalIndent(map[string]string{in: in}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		out := escape.JSON(encoded)
		if strings.ContainsFunc(strings.ReplaceAll(string(out), "\n", ""), obeyed) {
			t.Errorf("%q: %s", in, out)
		}
		var before, after map[string]string
		if json.Unmarshal(encoded, &before) != nil || json.Unmarshal(out, &after) != nil {
			t.Fatalf("%q: %s", in, out)
		}
		for k := range before {
			if after[k] != before[k] {
				t.Errorf("%q: got %q", k, after)
			}
		}
	}
}

// A shell hands on exactly the word, whatever is in it, and runs nothing.
func TestShellIsOneWord(t *testing.T) {
	for _, in := range nasty {
		if strings.Contains(in, "\x00") { // no argument of any program can hold it
			continue
		}
		shell := "sh"
		if strings.HasPrefix(escape.Shell(in), "$'") {
			shell = "bash" // $'...' is in POSIX since 2024, and not yet in every sh
		}
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), shell, "-c", "printf '<%s>' "+escape.Shell(in))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Equal(out, []byte("<"+in+">")) {
			t.Errorf("%q is %s, which is %q, %v", in, escape.Shell(in), out, err)
		}
		// Another shell may get another word, and still runs nothing.
		cmd = exec.CommandContext(t.Context(), "sh", "-c", "printf '<%s>' "+escape.Shell(in)+"; ls")
		cmd.Dir = dir
		if out, err := cmd.Output(); err != nil || strings.HasSuffix(string(out), ">INJ\n") || strings.Count(string(out), "<") != 1 {
			t.Errorf("%q is %s: %q, %v", in, escape.Shell(in), out, err)
		}
	}
}

func TestNameIsReadBack(t *testing.T) {
	for in, want := range map[string]string{
		"mail": "mail", "y job/mail/victim": "y%20job/mail/victim", "100%": "100%25", "a'b": "a%27b", "zw\u200bid": "zw%E2%80%8Bid", "日本語": "日本語",
		"a\xffb": "a%FFb", "k=v": "k=v", "a\u00a0b": "a%C2%A0b", "a\ufe0fb": "a%EF%B8%8Fb",
	} {
		if got := escape.Name(in, ""); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := escape.Name("a:b/c", ":/"); got != "a%3Ab%2Fc" {
		t.Errorf("got %q", got)
	}
	for _, in := range nasty {
		for _, also := range []string{"", "/", ":="} {
			text := escape.Name(in, also)
			if got := escape.Unname(text); got != in {
				t.Errorf("%q is %q, read as %q", in, text, got)
			}
			if in != "" && len(strings.Fields(text)) != 1 || strings.ContainsAny(text, `'"\$;&|<>*?[]{}~#!()`+"`") {
				t.Errorf("%q is not one word: %q", in, text)
			}
		}
	}
	for _, typed := range []string{"100%", "%", "%2", "%zz", "a%"} {
		if got := escape.Unname(typed); got != typed {
			t.Errorf("%q was read as %q", typed, got)
		}
	}
}

func TestMarkdownMakesNoMarkup(t *testing.T) {
	in := "a|b [x](http://y) <img> `c` *d* \\| &lt;\n| e |"
	want := "a&#124;b \\[x\\](http://y) &lt;img&gt; \\`c\\` \\*d\\* \\\\&#124; &amp;lt; &#124; e &#124;"
	if got := escape.Markdown(in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
