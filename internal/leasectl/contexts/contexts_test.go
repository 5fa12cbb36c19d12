package contexts_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/contexts"
)

func TestSaveKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "config.yaml")
	want := contexts.File{Current: "p", Previous: "q", Contexts: map[string]contexts.Context{
		"p": {
			Endpoints: []string{"https://a:1", "https://b:2"}, Root: "/x/", As: "n", CACert: "ca", Cert: "c", Key: "k", User: "u",
			PasswordCommand: "pass show x", DialTimeout: "3s", Output: "json", ReadOnly: true, Confirm: contexts.ConfirmYes,
		},
		"q": {},
	}}
	if err := contexts.Save(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := contexts.Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, %v; want %+v", got, err, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".config-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

// In YAML a yes without quotes is true, and a no is false.
func TestConfirmByHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	for written, want := range map[string]string{
		"yes": contexts.ConfirmYes, `"yes"`: contexts.ConfirmYes, "no": contexts.ConfirmNone, "none": contexts.ConfirmNone, "type-name": contexts.ConfirmTypeName,
	} {
		if err := os.WriteFile(path, []byte("contexts: {p: {confirm: "+written+"}}"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := contexts.Load(path)
		if got := f.Contexts["p"].Confirm; err != nil || got != want {
			t.Errorf("confirm: %s is read as %q, %v; want %q", written, got, err, want)
		}
	}
}

func TestLoadOfNothingIsEmpty(t *testing.T) {
	f, err := contexts.Load(filepath.Join(t.TempDir(), "none"))
	if err != nil || len(f.Names()) != 0 {
		t.Errorf("loaded %+v, %v", f, err)
	}
}

// Every setting that With can set is a field of the file, and the other way round.
func TestFieldsCoverTheContext(t *testing.T) {
	var c contexts.Context
	values := map[string]string{"read_only": "true", "confirm": "yes", "dial_timeout": "1s", "password_command": ""}
	for _, name := range contexts.Fields() {
		value, special := values[name]
		if !special {
			value = "value-of-" + name
		}
		next, err := c.With(name + "=" + value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := next.Value(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
		c = next
	}
	if n := reflect.TypeFor[contexts.Context]().NumField(); n != len(contexts.Fields()) {
		t.Errorf("%d fields can be set, the file has %d", len(contexts.Fields()), n)
	}
}

func TestPath(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"LEASECTL_CONFIG": "x.yaml", "HOME": "/h"}, "x.yaml"},
		{map[string]string{"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/leasectl/config.yaml"},
		{map[string]string{"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/leasectl/config.yaml"},
		{map[string]string{}, ""},
	} {
		got, err := contexts.Path(func(name string) string { return tt.env[name] })
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%v: %q, %v; want %q", tt.env, got, err, tt.want)
		}
	}
}

func TestCurrentFollows(t *testing.T) {
	f, err := contexts.File{}.Put("a", contexts.Context{})
	if err != nil || f.Current != "a" {
		t.Fatalf("the first is not the current one: %+v, %v", f, err)
	}
	if f, err = f.Put("b", contexts.Context{}); err != nil || f.Current != "a" {
		t.Fatalf("the second is: %+v, %v", f, err)
	}
	if f, err = f.Use("b"); err != nil {
		t.Fatal(err)
	}
	if f, err = f.Use("b"); err != nil || f.Previous != "a" { // again changes nothing
		t.Fatalf("%+v, %v", f, err)
	}
	if f, err = f.Rename("a", "c"); err != nil || f.Previous != "c" {
		t.Fatalf("%+v, %v", f, err)
	}
	if f, err = f.Delete("b"); err != nil || f.Current != "" {
		t.Fatalf("%+v, %v", f, err)
	}
	if _, err = f.Use("b"); err == nil || !strings.Contains(err.Error(), "only c") {
		t.Errorf("error %v", err)
	}
}
