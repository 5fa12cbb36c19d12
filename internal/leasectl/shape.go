package leasectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/itchyny/gojq"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// shape is what becomes of the values that a verb prints as JSON.
type shape struct {
	flag  string // that asked for it
	print func(ctx context.Context, w io.Writer, value any) error
}

// named tells that a flag of this call asked for it.
func (s *shape) named() bool { return strings.HasPrefix(s.flag, "--") }

// templatePrefix begins an output format that is a template.
const templatePrefix = "go-template="

// parseShape returns the shape that flags ask for, or nil. Its errors are usage errors.
func parseShape(jq, output, source string) (*shape, error) {
	text, isTemplate := strings.CutPrefix(output, templatePrefix)
	switch {
	case jq != "" && isTemplate:
		return nil, usagef("one of them", "--jq and %s%s contradict each other", source+" ", templatePrefix+"...")
	case jq != "":
		return jqShape(jq)
	case isTemplate:
		return templateShape(text, source)
	}
	return nil, nil
}

// jqShape prints what the program makes of a value, one result in a line, texts without quotes.
func jqShape(program string) (*shape, error) {
	const try = "https://jqlang.org/manual, or -o json"
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, usagef(try, "--jq %q: %w", program, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, usagef(try, "--jq %q: %w", program, err)
	}
	return &shape{"--jq", func(ctx context.Context, w io.Writer, value any) error {
		for results := code.RunWithContext(ctx, value); ; {
			result, more := results.Next()
			if !more {
				return nil
			}
			if err, failed := result.(error); failed {
				var halt *gojq.HaltError
				if errors.As(err, &halt) && halt.Value() == nil {
					return nil
				}
				return fmt.Errorf("--jq %q: %w", program, err)
			}
			if err := printFound(w, result); err != nil {
				return err
			}
		}
	}}, nil
}

func printFound(w io.Writer, result any) error {
	text, isText := result.(string)
	if !isText {
		b, err := gojq.Marshal(result)
		if err != nil {
			return fmt.Errorf("--jq: %w", err)
		}
		text = string(b)
	}
	return printText(w, text+"\n")
}

// templateShape executes a template of text/template on each value, and adds nothing.
func templateShape(text, source string) (*shape, error) {
	t, err := template.New("template").Funcs(template.FuncMap{"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	}}).Parse(text)
	if err != nil {
		return nil, usagef(`-o 'go-template={{range .items}}{{.name}}{{"\n"}}{{end}}'`, "%s %s: %w", source, templatePrefix+"...", err)
	}
	return &shape{source, func(_ context.Context, w io.Writer, value any) error {
		var b strings.Builder
		if err := t.Execute(&b, value); err != nil {
			return fmt.Errorf("%s: %w", templatePrefix+"...", err)
		}
		return printText(w, b.String())
	}}, nil
}

// printText writes text as it is, but for what a terminal would obey.
func printText(w io.Writer, text string) error {
	if isTerminal(w) {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = escape.Text(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// shaper stands between a verb that prints JSON and stdout.
type shaper struct {
	in   *io.PipeWriter // what the verb prints
	done chan error     // why it ended, once
}

// startShaper prints every value that is written to its in, as soon as it is whole, until finish.
func startShaper(ctx context.Context, s *shape, out io.Writer) *shaper {
	r, w := io.Pipe()
	sh := &shaper{in: w, done: make(chan error, 1)}
	go func() {
		err := s.printAll(ctx, r, out)
		_ = r.CloseWithError(err) // the verb hears of it when it prints on
		sh.done <- err
	}()
	return sh
}

func (s *shape) printAll(ctx context.Context, r io.Reader, out io.Writer) error {
	dec := json.NewDecoder(r)
	dec.UseNumber() // digits are kept
	for {
		var value any
		err := dec.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: what was printed is not JSON: %w", s.flag, err)
		}
		if err := s.print(ctx, out, value); err != nil {
			return err
		}
	}
}

// finish waits until all is printed.
func (sh *shaper) finish() error {
	_ = sh.in.Close()
	return <-sh.done
}
