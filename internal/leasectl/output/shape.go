package output

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/itchyny/gojq"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// Shape is what becomes of the values that a verb prints as JSON.
type Shape struct {
	Flag  string // that asked for it
	print func(ctx context.Context, w io.Writer, value any) error
}

// Named tells that a flag of this call asked for it.
func (s *Shape) Named() bool { return strings.HasPrefix(s.Flag, "--") }

// TemplatePrefix begins an output format that is a template.
const TemplatePrefix = "go-template="

// ParseShape returns the shape that flags ask for, or nil. Its errors are usage errors.
func ParseShape(jq, output, source string) (*Shape, error) {
	text, isTemplate := strings.CutPrefix(output, TemplatePrefix)
	switch {
	case jq != "" && isTemplate:
		return nil, exit.Usagef("one of them", "--jq and %s%s contradict each other", source+" ", TemplatePrefix+"...")
	case jq != "":
		return jqShape(jq)
	case isTemplate:
		return templateShape(text, source)
	}
	return nil, nil
}

// jqShape prints what the program makes of a value, one result in a line, texts without quotes.
func jqShape(program string) (*Shape, error) {
	const try = "https://jqlang.org/manual, or -o json"
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, exit.Usagef(try, "--jq %q: %w", program, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, exit.Usagef(try, "--jq %q: %w", program, err)
	}
	return &Shape{"--jq", func(ctx context.Context, w io.Writer, value any) error {
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
	return PrintText(w, text+"\n")
}

// templateShape executes a template of text/template on each value, and adds nothing.
func templateShape(text, source string) (*Shape, error) {
	t, err := template.New("template").Funcs(template.FuncMap{"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	}}).Parse(text)
	if err != nil {
		return nil, exit.Usagef(`-o 'go-template={{range .items}}{{.name}}{{"\n"}}{{end}}'`, "%s %s: %w", source, TemplatePrefix+"...", err)
	}
	return &Shape{source, func(_ context.Context, w io.Writer, value any) error {
		var b strings.Builder
		if err := t.Execute(&b, value); err != nil {
			return fmt.Errorf("%s: %w", TemplatePrefix+"...", err)
		}
		return PrintText(w, b.String())
	}}, nil
}

// PrintText writes text as it is, but for what a terminal would obey.
func PrintText(w io.Writer, text string) error {
	if IsTerminal(w) {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = escape.Text(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	return Write(w, text)
}

// Shaper stands between a verb that prints JSON and stdout.
type Shaper struct {
	In   *io.PipeWriter // what the verb prints
	done chan error     // why it ended, once
}

// StartShaper prints every value that is written to its in, as soon as it is whole, until finish.
func StartShaper(ctx context.Context, s *Shape, out io.Writer) *Shaper {
	r, w := io.Pipe()
	sh := &Shaper{In: w, done: make(chan error, 1)}
	go func() {
		err := s.printAll(ctx, r, out)
		_ = r.CloseWithError(err) // the verb hears of it when it prints on
		sh.done <- err
	}()
	return sh
}

func (s *Shape) printAll(ctx context.Context, r io.Reader, out io.Writer) error {
	dec := json.NewDecoder(r)
	dec.UseNumber() // digits are kept
	for {
		var value any
		err := dec.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: what was printed is not JSON: %w", s.Flag, err)
		}
		if err := s.print(ctx, out, value); err != nil {
			return err
		}
	}
}

// Finish waits until all is printed.
func (sh *Shaper) Finish() error {
	_ = sh.In.Close()
	return <-sh.done
}
