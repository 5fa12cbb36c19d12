package leasectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compileSchema compiles schemas/NAME.json.
func compileSchema(name string) (*jsonschema.Schema, error) {
	dir, err := filepath.Abs("schemas")
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c.Compile(filepath.Join(dir, name+".json"))
}

// schemaOf is compileSchema, for one item or, as LIST of it, for what lists print: {"items":[...]}.
func schemaOf(name string, list bool) (*jsonschema.Schema, error) {
	if !list {
		return compileSchema(name)
	}
	dir, err := filepath.Abs("schemas")
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	const url = "list.json"
	at := filepath.Join(dir, url)
	err = c.AddResource(at, map[string]any{
		"type": "object", "required": []any{"items"}, "additionalProperties": false,
		"properties": map[string]any{"items": map[string]any{"type": "array", "items": map[string]any{"$ref": name + ".json"}}},
	})
	if err != nil {
		return nil, err
	}
	return c.Compile(at)
}

// cmdValidates is "validates [list of|lines of] SCHEMA": the last command must have printed JSON as schemas/SCHEMA.json
// says: one item, or a list of them that is not empty, or one on each line.
func cmdValidates(ts *testscript.TestScript, neg bool, args []string) {
	of := ""
	if len(args) == 3 && args[1] == "of" {
		of, args = args[0], args[2:]
	}
	if neg || len(args) != 1 || of != "" && of != "list" && of != "lines" {
		ts.Fatalf("usage: validates [list of|lines of] SCHEMA")
	}
	schema, err := schemaOf(args[0], of == "list")
	ts.Check(err)
	texts := []string{ts.ReadFile("stdout")}
	if of == "lines" {
		texts = strings.Split(strings.TrimRight(texts[0], "\n"), "\n")
	}
	for _, text := range texts {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			ts.Fatalf("%v in %q", err, text)
		}
		if err := schema.Validate(value); err != nil {
			ts.Fatalf("%v\n%s", err, text)
		}
		if items, _ := value.(map[string]any); of == "list" && len(items["items"].([]any)) == 0 {
			ts.Fatalf("the list is empty: nothing is proven")
		}
	}
}

// Every schema compiles, and says what it is for.
func TestSchemasCompile(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("schemas", "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, file := range names {
		if _, err := compileSchema(strings.TrimSuffix(filepath.Base(file), ".json")); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), `"title": "`) {
			t.Errorf("%s has no title: %v", file, err)
		}
	}
	// What a schema refuses: a number that JSON rounds, and a field that it does not know.
	schema, err := schemaOf("session", true)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"items":[]}`: true,
		`{"items":[{"session":"a.0123456789abcdef","ttl":10}]}`:      true,
		`{"items":[{"session":"a.0123456789abcdef","ttl":"10"}]}`:    false,
		`{"items":[{"session":"a.0123456789abcdef","ttl":1,"x":1}]}`: false,
		`{"items":[{"session":"a","ttl":1}]}`:                        false,
		`{"items":[],"more":1}`:                                      false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
