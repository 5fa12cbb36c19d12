package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// InputLine is one line of stdin that is not blank.
type InputLine struct {
	Number int    // from 1; blank lines count
	Text   []byte // without the newline, a carriage return before it, and a byte order mark in front; at most the limit
	Size   int    // what it had; more than len(text) when it was too long
}

// A chunk of lines is handed over when it is this large, or when the next line is not there yet: a slow producer's jobs
// do not wait for company, a fast one's travel together.
const (
	chunkLines = 2000
	chunkBytes = 1 << 20
)

// LineReader reads lines in chunks, ahead of whoever works on them.
type LineReader struct {
	Chunks chan []InputLine // closed at the end; then err is set
	Err    error
}

// ReadLines starts to read. The goroutine ends with the input or with ctx, but nothing can take it out of a read that
// waits for a terminal or a pipe: then it ends with the process.
func ReadLines(ctx context.Context, in io.Reader, limit int) *LineReader {
	r := &LineReader{Chunks: make(chan []InputLine)}
	go func() {
		defer close(r.Chunks)
		r.Err = r.read(ctx, bufio.NewReaderSize(in, 64<<10), limit)
	}()
	return r
}

func (r *LineReader) read(ctx context.Context, in *bufio.Reader, limit int) error {
	var chunk []InputLine
	size := 0
	for number := 1; ; number++ {
		line, err := readLine(in, limit+len(byteOrderMark)+len("\r"))
		whole := err == nil || errors.Is(err, io.EOF) // else it is cut off: half a payload is none
		line.Number = number
		if line.strip(limit); whole && len(bytes.TrimSpace(line.Text)) > 0 {
			chunk = append(chunk, line)
			size += len(line.Text)
		}
		if len(chunk) > 0 && (err != nil || len(chunk) >= chunkLines || size >= chunkBytes || in.Buffered() == 0) {
			if ctx.Err() != nil { // where both were ready, select would go on by chance
				return context.Cause(ctx)
			}
			select {
			case r.Chunks <- chunk:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			chunk, size = nil, 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// byteOrderMark is what some editors write in front of UTF-8.
const byteOrderMark = "\ufeff"

// strip takes off what an editor or another system put around the text, and what exceeds the limit.
func (l *InputLine) strip(limit int) {
	whole := len(l.Text) == l.Size
	if l.Number == 1 && bytes.HasPrefix(l.Text, []byte(byteOrderMark)) {
		l.Text, l.Size = l.Text[len(byteOrderMark):], l.Size-len(byteOrderMark)
	}
	if whole {
		l.Text = bytes.TrimSuffix(l.Text, []byte("\r"))
		l.Size = len(l.Text)
	}
	l.Text = l.Text[:min(len(l.Text), limit)]
}

// readLine reads up to the newline, which is not part of the line. What exceeds the limit is counted, not kept. With an
// error there may be a last line without a newline.
func readLine(in *bufio.Reader, limit int) (InputLine, error) {
	var l InputLine
	for {
		part, err := in.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		l.Size += len(part)
		l.Text = append(l.Text, part[:min(len(part), limit-len(l.Text))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
	}
}
