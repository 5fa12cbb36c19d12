// Package contexts keeps the file of named clusters that leasectl can be pointed at, as kubectl's contexts do: how each
// one is reached, and how careful one wants to be there. A File is a plain value; only Load and Save touch the disk.
package contexts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// File is the file's content.
type File struct {
	// Current is the context in use, "" for none.
	Current string `json:"current,omitempty"`
	// Previous is the one that was in use before, for "config use -".
	Previous string `json:"previous,omitempty"`
	// Contexts are the contexts by name.
	Contexts map[string]Context `json:"contexts,omitempty"`
}

// Context is one cluster and root. Empty fields are left to the environment and the defaults.
type Context struct {
	Endpoints       []string `json:"endpoints,omitempty"`
	Root            string   `json:"root,omitempty"`
	As              string   `json:"as,omitempty"`
	CACert          string   `json:"cacert,omitempty"`
	Cert            string   `json:"cert,omitempty"`
	Key             string   `json:"key,omitempty"`
	User            string   `json:"user,omitempty"`
	PasswordFile    string   `json:"password_file,omitempty"`
	PasswordCommand string   `json:"password_command,omitempty"`
	DialTimeout     string   `json:"dial_timeout,omitempty"`
	Output          string   `json:"output,omitempty"`
	Color           string   `json:"color,omitempty"`
	// ReadOnly refuses every verb that writes.
	ReadOnly bool `json:"read_only,omitempty"`
	// Confirm says what is asked before a verb that writes: nothing ("" and none), yes or no (yes), or the name of the
	// context (type-name).
	Confirm string `json:"confirm,omitempty"`
}

// The values of Confirm.
const (
	ConfirmNone     = "none"
	ConfirmYes      = "yes"
	ConfirmTypeName = "type-name"
)

// Path returns where the file is: $LEASECTL_CONFIG, else leasectl/config.yaml in $XDG_CONFIG_HOME or ~/.config.
func Path(getenv func(string) string) (string, error) {
	if p := getenv("LEASECTL_CONFIG"); p != "" {
		return p, nil
	}
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification: a relative one is to be ignored
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("neither XDG_CONFIG_HOME nor HOME is set")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "leasectl", "config.yaml"), nil
}

// Load reads a file. One that does not exist is an empty File; one with unknown fields, a dangling current context or
// bad values is an error that names them.
func Load(path string) (File, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	}
	if err != nil {
		return File{}, fmt.Errorf("read contexts: %w", err)
	}
	var f File
	if err := yaml.UnmarshalStrict(b, &f); err != nil {
		return File{}, fmt.Errorf("read contexts from %s: %w", path, plain(err))
	}
	for _, name := range f.Names() {
		c := f.Contexts[name]
		c.Confirm = unbool(c.Confirm)
		if err := c.check(); err != nil {
			return File{}, fmt.Errorf("read contexts from %s: context %s: %w", path, name, err)
		}
		f.Contexts[name] = c
	}
	return f, nil
}

// unbool takes back what YAML makes of a word without quotes.
func unbool(word string) string {
	switch word {
	case "true":
		return ConfirmYes
	case "false":
		return ConfirmNone
	}
	return word
}

// plain is the parser's error in one line, without what it says about itself.
func plain(err error) error {
	var misfit *json.UnmarshalTypeError
	if errors.As(err, &misfit) {
		return fmt.Errorf("%s cannot be a %s", misfit.Field, misfit.Value)
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, of := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: ", "yaml: "} {
		text = strings.TrimPrefix(text, of)
	}
	return errors.New(text)
}

// Save writes the file for its owner only, whole or not at all: it may name how passwords are had.
func Save(path string, f File) error {
	b, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".config-*") // 0600
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone when all went well
	_, err = tmp.Write(bytes.TrimLeft(b, "\n"))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// Names returns the names of the contexts, sorted.
func (f File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// UnknownError says that there is no context of a name.
type UnknownError struct {
	Name  string
	Known []string
}

func (e *UnknownError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no context %q: there are none yet", e.Name)
	}
	return fmt.Sprintf("there is no context %q, only %s", e.Name, strings.Join(e.Known, ", "))
}

// Get returns a context.
func (f File) Get(name string) (Context, error) {
	c, ok := f.Contexts[name]
	if !ok {
		return Context{}, &UnknownError{name, f.Names()}
	}
	return c, nil
}

// None is the name that stands for no context.
const None = "none"

// Use returns the file with another current context; "-" is the previous one, and [None] none.
func (f File) Use(name string) (File, error) {
	if name == None {
		if f.Current != "" {
			f.Current, f.Previous = "", f.Current
		}
		return f, nil
	}
	if name == "-" {
		if name = f.Previous; name == "" {
			return f, errors.New("there is no previous context")
		}
	}
	if _, err := f.Get(name); err != nil {
		return f, err
	}
	if name != f.Current {
		f.Current, f.Previous = name, f.Current
	}
	return f, nil
}

// Rename returns the file with a context under another name.
func (f File) Rename(old, name string) (File, error) {
	c, err := f.Get(old)
	if err != nil {
		return f, err
	}
	if _, taken := f.Contexts[name]; taken {
		return f, fmt.Errorf("there is a context %q already", name)
	}
	if err := checkName(name); err != nil {
		return f, err
	}
	f.Contexts = maps.Clone(f.Contexts)
	delete(f.Contexts, old)
	f.Contexts[name] = c
	for _, at := range []*string{&f.Current, &f.Previous} {
		if *at == old {
			*at = name
		}
	}
	return f, nil
}

// Delete returns the file without a context.
func (f File) Delete(name string) (File, error) {
	if _, err := f.Get(name); err != nil {
		return f, err
	}
	f.Contexts = maps.Clone(f.Contexts)
	delete(f.Contexts, name)
	for _, at := range []*string{&f.Current, &f.Previous} {
		if *at == name {
			*at = ""
		}
	}
	return f, nil
}

// Put returns the file with a context set. The first one becomes the current one.
func (f File) Put(name string, c Context) (File, error) {
	if err := checkName(name); err != nil {
		return f, err
	}
	if err := c.check(); err != nil {
		return f, err
	}
	if f.Contexts = maps.Clone(f.Contexts); f.Contexts == nil {
		f.Contexts = map[string]Context{}
		f.Current = name
	}
	f.Contexts[name] = c
	return f, nil
}

func checkName(name string) error {
	if name == "" || name == "-" || name == None || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("context name %q: it must be one word, and neither - nor %s", name, None)
	}
	return nil
}

func (c Context) check() error {
	switch c.Confirm {
	case "", ConfirmNone, ConfirmYes, ConfirmTypeName:
	default:
		return fmt.Errorf("confirm is %q: it is none, yes or type-name", c.Confirm)
	}
	if c.PasswordFile != "" && c.PasswordCommand != "" {
		return errors.New("password_file and password_command exclude each other")
	}
	if c.DialTimeout != "" {
		if d, err := time.ParseDuration(c.DialTimeout); err != nil || d <= 0 {
			return fmt.Errorf("dial_timeout is %q: it is a time such as 5s", c.DialTimeout)
		}
	}
	return nil
}
