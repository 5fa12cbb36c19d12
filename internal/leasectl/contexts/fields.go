package contexts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// field is one setting of a context by its name in the file.
type field struct {
	name string
	get  func(*Context) string
	set  func(*Context, string) error
}

func text(name string, at func(*Context) *string) field {
	return field{
		name: name,
		get:  func(c *Context) string { return *at(c) },
		set:  func(c *Context, v string) error { *at(c) = v; return nil },
	}
}

var fields = []field{
	{
		name: "endpoints",
		get:  func(c *Context) string { return strings.Join(c.Endpoints, ",") },
		set: func(c *Context, v string) error {
			c.Endpoints = nil
			if v != "" {
				c.Endpoints = strings.Split(v, ",")
			}
			return nil
		},
	},
	text("root", func(c *Context) *string { return &c.Root }),
	text("as", func(c *Context) *string { return &c.As }),
	text("cacert", func(c *Context) *string { return &c.CACert }),
	text("cert", func(c *Context) *string { return &c.Cert }),
	text("key", func(c *Context) *string { return &c.Key }),
	{
		name: "user",
		get:  func(c *Context) string { return c.User },
		set: func(c *Context, v string) error {
			if strings.Contains(v, ":") { // the value is not repeated: it holds what nobody should read
				return errors.New("user takes a name only: a password is not kept here, but in password_file or by password_command")
			}
			c.User = v
			return nil
		},
	},
	text("password_file", func(c *Context) *string { return &c.PasswordFile }),
	text("password_command", func(c *Context) *string { return &c.PasswordCommand }),
	text("dial_timeout", func(c *Context) *string { return &c.DialTimeout }),
	text("output", func(c *Context) *string { return &c.Output }),
	text("color", func(c *Context) *string { return &c.Color }),
	{
		name: "read_only",
		get: func(c *Context) string {
			if !c.ReadOnly {
				return ""
			}
			return "true"
		},
		set: func(c *Context, v string) error {
			on, err := strconv.ParseBool(v)
			if err != nil && v != "" {
				return fmt.Errorf("read_only is %q: it is true or false", v)
			}
			c.ReadOnly = on
			return nil
		},
	},
	text("confirm", func(c *Context) *string { return &c.Confirm }),
}

// Fields lists the names of a context's settings.
func Fields() (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// Value returns a setting as text, "" when it is not set or not known.
func (c Context) Value(name string) string {
	for _, f := range fields {
		if f.name == name {
			return f.get(&c)
		}
	}
	return ""
}

// With returns the context with settings changed, each NAME=VALUE; an empty value takes a setting out.
func (c Context) With(settings ...string) (Context, error) {
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return c, fmt.Errorf("setting %q is not NAME=VALUE", s)
		}
		if err := c.set(strings.ReplaceAll(name, "-", "_"), value); err != nil {
			return c, err
		}
	}
	return c, c.check()
}

func (c *Context) set(name, value string) error {
	for _, f := range fields {
		if f.name == name {
			return f.set(c, value)
		}
	}
	return fmt.Errorf("there is no setting %q, only %s", name, strings.Join(Fields(), ", "))
}
